"""Tokens that `samebits audit` checks a second, on one thread, at H = 2688 and V = 131072.

python tools/audit_speed.py COMMAND [--tokens 512] [--repeats 3] [--folder DIR]; the package is on PYTHONPATH,
COMMAND is the built `samebits`. A synthetic head of 704 MB in bfloat16 (that of evidence/*/audit) is written
into the folder, `samebits logp` records the tokens under each contract, and `samebits audit` recomputes them.
"""

import argparse
import json
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

from safetensors.torch import save_file

from evidence import audit


def seconds_of_children() -> float:
    """Processor time of the commands that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(command: list[str], folder: Path, repeats: int) -> None:
    """Prints a line for each contract: best of the repeats, by the clock and by processor time."""
    head = ("--weight", folder / "head", "--threads", "1", "--quiet")
    for contract in ("tc16", "fma"):
        record = folder / f"{contract}.safetensors"
        recording = (*command, "logp", folder / "hidden", "--contract", contract, "-o", record, *head)
        subprocess.run(recording, check=True)
        by_clock, by_processor = [], []
        for _ in range(repeats):
            before = seconds_of_children()
            done = subprocess.run((*command, "audit", folder / "hidden", record, "--json", *head),
                                  check=True, capture_output=True)  # fmt: skip
            report = json.loads(done.stdout)
            by_clock.append(report["tokens_per_second"])
            by_processor.append(report["computed"] / (seconds_of_children() - before))
        print(
            f"{contract}: {report['computed']} tokens, same bits: {report['same']}; a second and core, "
            f"best of {repeats}: {max(by_clock):.1f} by the clock, {max(by_processor):.1f} of processor time"
        )


def positive(text: str) -> int:
    """A number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"is {text}; must be a whole number of at least 1")
    return int(text)


def main() -> None:
    """Reads the arguments, writes the inputs, measures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", help="the samebits command")
    parser.add_argument("--tokens", type=positive, default=512)
    parser.add_argument("--repeats", type=positive, default=3)
    parser.add_argument("--folder", type=Path, help="where the inputs are written (default: a temporary one)")
    options = parser.parse_args()
    if shutil.which(options.command) is None:
        parser.error(f"COMMAND: {options.command} cannot be run")
    if options.folder and not options.folder.is_dir():
        parser.error(f"--folder: {options.folder} is not a folder")
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        targets = audit.mixed(0, options.tokens, 3, "cpu") % audit.VOCAB
        save_file({"hidden": audit.hidden_states(options.tokens), "targets": targets}, folder / "hidden")
        (folder / "head").mkdir()
        save_file({"lm_head.weight": audit.weight()}, folder / "head" / "model.safetensors")
        measure([options.command], folder, options.repeats)


if __name__ == "__main__":
    main()
