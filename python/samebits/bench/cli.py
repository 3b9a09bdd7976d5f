"""`python -m samebits.bench`: options, the plan, the order of things."""

import argparse
import json
import os
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from samebits.bench import figure, machine, peers, table
from samebits.bench.cases import DTYPES, MODES, Case
from samebits.bench.errors import BenchError
from samebits.bench.measure import Effort, measure
from samebits.bench.operators import OPERATORS
from samebits.check.cli import require_device
from samebits.check.errors import CheckError
from samebits.demo.errors import DemoError, need

SCHEMA = "samebits.bench.v1"
DECODE_TOKENS = [1, 8, 64]
SHAPES = {  # of the kind of device: tokens, vocab, hidden
    "cuda": ([4096], 131072, 2688),
    "cpu": ([64], 32768, 512),
}
MODE_HELP = "; ".join(f"{name}: {text}" for name, text in MODES.items())
EXAMPLES = """examples:
  python -m samebits.bench --op logp --vocab 131072 --dtype bf16 fp32 --mode fwd fwdbwd
  python -m samebits.bench --op linear_logp --device cuda --tokens 2048 8192 --mode fwd fwdbwd --json out.json
  python -m samebits.bench --op logp linear_logp --device cuda --mode decode --plots pictures/
  python -m samebits.bench --list --device cuda
"""


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"is {text}; must be at least 1")
    return value


def _duration(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"is {text}; may be 0 to 3600 seconds")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if not 0 <= value < 2**32:
        raise argparse.ArgumentTypeError(f"is {text}; may be 0 to 2^32 - 1")
    return value


def parser() -> argparse.ArgumentParser:
    """All options, with their help."""
    made = argparse.ArgumentParser(
        prog="python -m samebits.bench",
        description="Speed and memory of samebits beside what else is installed: in turns, on the same "
        "tensors, in one run, with the machine's own limits. "
        "Exit status: 0 measured, 2 could not run, 130 interrupted.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = made.add_argument_group("what (each may be given several values; all combinations are measured)")
    what.add_argument("--op", nargs="+", choices=OPERATORS, default=["logp"], metavar="NAME",
                      help=f"{', '.join(OPERATORS)} (default logp)")  # fmt: skip
    what.add_argument("--mode", nargs="+", choices=MODES, default=["fwd"], metavar="NAME",
                      help=f"{MODE_HELP} (default fwd)")  # fmt: skip
    what.add_argument("--dtype", nargs="+", choices=DTYPES, default=["bf16"], metavar="NAME",
                      help=f"{', '.join(DTYPES)} (default bf16)")  # fmt: skip
    what.add_argument("--tokens", nargs="+", type=_count, metavar="N",
                      help="rows (default 4096, on a CPU 64, for decode 1 8 64, for call 1)")  # fmt: skip
    what.add_argument("--vocab", nargs="+", type=_count, metavar="N",
                      help="vocabulary, or columns (default 131072, on a CPU 32768; call 128)")  # fmt: skip
    what.add_argument("--hidden", nargs="+", type=_count, metavar="N",
                      help="hidden size (default 2688, on a CPU 512)")  # fmt: skip
    what.add_argument("--threads", nargs="+", type=_count, metavar="N",
                      help="torch's threads, for the CPU (default: as many as torch takes)")  # fmt: skip
    made.add_argument("--device", default="cpu", help="as torch names it (default cpu)")
    made.add_argument("--contestants", nargs="+", metavar="NAME",
                      help="only samebits and these, by the names of --list (some run only so)")  # fmt: skip
    how = made.add_argument_group("how")
    how.add_argument("--cache", choices=("auto", "cold", "warm"), default="auto",
                     help="cold: a gigabyte is read before each call (auto: cold on a GPU, but warm for "
                     "decode and on a CPU)")  # fmt: skip
    how.add_argument("--seconds", type=_duration, default=3.0, help="of measuring, for each case (default 3)")
    how.add_argument("--rounds", type=_count, help="turns of each case, instead of --seconds")
    how.add_argument("--warm-up", type=_duration,
                     help="seconds of turns before each case (default 1; on a CPU 0: two turns)")  # fmt: skip
    how.add_argument("--seed", type=_seed, default=0, help="of the inputs (default 0)")
    out = made.add_argument_group("results")
    out.add_argument("--json", metavar="FILE", help="write the result; - prints it instead of the tables")
    out.add_argument("--plots", metavar="DIR", type=Path, help="draw a PNG and an SVG of each kind of case")
    out.add_argument("--markdown", action="store_true", help="print the tables in Markdown")
    out.add_argument(
        "--show", metavar="FILE", type=Path, help="measure nothing; show a result written by --json"
    )
    out.add_argument("--list", action="store_true", help="measure nothing; say who can take part, or why not")
    return made


def main(arguments: list[str] | None = None) -> int:
    """Exit status: 0 measured, 2 could not run, 130 interrupted."""
    options = parser().parse_args(arguments)
    try:
        need("rich", "rich", "the table")
        if options.plots:
            need("matplotlib", "matplotlib", "a plot")
        return run(options)
    except (BenchError, CheckError, DemoError) as error:
        print(f"samebits.bench: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"samebits.bench: {error.filename or 'the result'}: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("samebits.bench: interrupted; nothing was written", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    """What was asked for."""
    from rich.console import Console

    console = Console(stderr=options.json == "-" or options.markdown)
    if options.show:
        return present(options, console, load(options.show))
    require_device(options.device)
    plan = cases(options)
    if options.list:
        return list_contestants(console, plan)
    known = {c.name for case in plan for c in OPERATORS[case.op].contestants}
    if unknown := sorted(set(options.contestants or ()) - known):
        raise BenchError(f"--contestants: {', '.join(unknown)}; may be {', '.join(sorted(known))}")
    if options.json and options.json != "-" and not Path(options.json).resolve().parent.is_dir():
        raise BenchError(f"--json {options.json}: there is no such folder")
    data = {
        "schema": SCHEMA,
        "machine": machine.describe(torch.device(options.device)),
        "seed": options.seed,
        "packages": {name: peers.version(name) for name in peers.DISTRIBUTIONS},
        "cases": measured(options, console, plan),
    }
    if options.json and options.json != "-":
        save(Path(options.json), data)
    return present(options, console, data)


def cases(options: argparse.Namespace) -> list[Case]:
    """Every combination, in the order of the options."""
    kind = "cuda" if torch.device(options.device).type == "cuda" else "cpu"
    tokens, vocab, hidden = SHAPES[kind]
    threads = options.threads or [torch.get_num_threads()]
    plan = []
    for op, mode, dtype in product(options.op, options.mode, options.dtype):
        if op == "call":
            default_tokens, default_vocab = [1], 128
        else:
            default_tokens, default_vocab = (DECODE_TOKENS if mode == "decode" else tokens), vocab
        shapes = product(
            options.tokens or default_tokens,
            (options.vocab or [default_vocab]) if "vocab" in OPERATORS[op].sizes else [0],
            (options.hidden or [hidden]) if "hidden" in OPERATORS[op].sizes else [0],
        )
        warm = kind == "cpu" or mode == "decode" or op == "call"
        cold = options.cache == "cold" or (options.cache == "auto" and not warm)
        for (rows, columns, size), count in product(shapes, threads if kind == "cpu" else [0]):
            plan.append(Case(op, mode, rows, columns, size, dtype, options.device, count, cold, options.seed))
    return plan


def measured(options: argparse.Namespace, console, plan: list[Case]) -> list[dict[str, Any]]:
    """The entries of all cases; a bar shows how far it is."""
    from samebits.demo.progress import Stages
    from samebits.demo.threads import torch_threads

    gpu = torch.device(options.device).type == "cuda"
    warm_up = float(gpu) if options.warm_up is None else options.warm_up
    effort = Effort(options.seconds, warm_up, options.rounds)
    found = []
    placed = torch.cuda.device(options.device) if gpu else nullcontext()  # events are of the current one
    with placed, Stages(console) as stages, stages.stage("benchmark", len(plan)) as tick:
        for case in plan:
            tick(0, note=case.title)
            with torch_threads(case.threads or torch.get_num_threads()):
                found.append(measure(case, effort, options.contestants))
            tick(note=case.title)
    return found


def present(options: argparse.Namespace, console, data: dict[str, Any]) -> int:
    """Tables, JSON or Markdown, and plots."""
    if options.json == "-":
        print(json.dumps(data, indent=1, allow_nan=False))
    elif options.markdown:
        print(table.markdown(data), end="")
    else:
        table.show(console, data)
    written = [Path(options.json)] if options.json and options.json != "-" and not options.show else []
    if options.plots:
        written += figure.draw(options.plots, data)
    for path in written:
        console.print(f"written: {path}", style="dim", markup=False, highlight=False)
    return 0


def list_contestants(console, plan: list[Case]) -> int:
    """Who can take part in the first case of each operator, in which version; or why not."""
    from rich.markup import escape
    from rich.table import Table

    for op in dict.fromkeys(case.op for case in plan):
        case = next(case for case in plan if case.op == op)
        title = escape(f"{op}: {OPERATORS[op].summary}")
        shown = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for heading in ("contestant", "package", "", "remarks"):
            shown.add_column(heading, overflow="fold")
        for one in OPERATORS[op].contestants:
            refusals = [one.refusal(replace(case, mode=mode)) for mode in (case.mode, "fwdbwd")]
            reason = peers.unavailable(one) or (refusals[0] if all(refusals) else "")
            remarks = [reason or one.note, "on request" if one.on_request else ""]
            package = f"{one.package} {peers.version(one.package) or ''}"
            shown.add_row(one.name, package, "no" if reason else "yes", "; ".join(filter(None, remarks)))
        console.print(shown)
        console.print()
    return 0


def load(path: Path) -> dict[str, Any]:
    """A result from a file."""
    try:
        data = json.loads(path.read_text())
        if data["schema"] != SCHEMA:
            raise BenchError(f"--show {path}: has schema {data['schema']!r}; must be {SCHEMA!r}")
    except (ValueError, KeyError, TypeError):
        raise BenchError(f"--show {path}: is not a result written by --json") from None
    return data


def save(path: Path, data: dict[str, Any]) -> None:
    """All of it or nothing."""
    with tempfile.NamedTemporaryFile("w", dir=path.resolve().parent, delete=False) as file:
        try:
            json.dump(data, file, indent=1, allow_nan=False)
            file.write("\n")
            file.close()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
