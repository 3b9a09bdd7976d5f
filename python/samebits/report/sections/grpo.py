"""Strict GRPO on real text: every log-prob from samebits, losses bit-equal in every layout."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from samebits.report.case import Case
from samebits.report.context import Context, judged, skipped
from samebits.report.folder import read_json
from samebits.report.process import python

TITLE = "Strict GRPO"
ABOUT = (
    "examples/grpo.py: six optimisation steps of a small language model, with samebits.linear_logp as the "
    "source of old, reference and train log-probs, run again padded, packed, in chunks, under other memory "
    "budgets and threads, and beside a GPU on the CPU. Losses and weights must have the same bits; log-probs "
    "planted from elsewhere must stop the run. data/grpo-DTYPE.json has every step."
)
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
SCRIPT = "grpo.py"


def cases(context: Context) -> Iterator[Case]:
    """For each dtype: every layout, the source of the log-probs, and a planted fault."""
    examples = context.root / "examples" if context.root else None
    if examples is None or not (examples / SCRIPT).is_file():
        yield skipped("examples/grpo.py is in the repository, and this is not run in a checkout", case="all")
        return
    small = (
        ["--warm-up", "20", "--iterations", "2", "--inner", "2", "--prompts", "2"] if context.quick else []
    )
    with context.stage("GRPO", 2 * len(DTYPES)) as tick, tempfile.TemporaryDirectory() as folder:
        for short, name in DTYPES.items():
            options = ["--device", context.device, "--dtype", name, *small]
            context.commands.append(" ".join(["python examples/grpo.py", *options]))
            tick(note=short)
            written = Path(folder) / f"{short}.json"
            ended = python([SCRIPT, *options, "--json", str(written)], examples)
            yield from run(short, ended, written, context)
            tick(note=f"{short}, planted")
            ended = python([SCRIPT, *options, "--plant", "torch"], examples)
            stopped = ended.status == 1 and "strict: train" in ended.words
            yield judged(
                stopped, f"strict mode did not stop: {ended.words}", case="log-probs planted from elsewhere",
                operator="linear_logp", dtype=short, method="planted",
            )  # fmt: skip


def run(dtype: str, ended, written: Path, context: Context) -> Iterator[Case]:
    """What one run says of itself."""
    labels = {"operator": "linear_logp", "dtype": dtype}
    if not written.exists():
        yield judged(False, f"exit status {ended.status}: {ended.words}", case="all", **labels)
        return
    found = read_json(written)
    context.attach(f"grpo-{dtype}", found)
    yield judged(
        found["passed"] and ended.status == 0, found["reason"] or f"exit status {ended.status}",
        case="strict", method="every log-prob is samebits'", **labels,
    )  # fmt: skip
    for layout in found["layouts"]:
        for what in ("losses", "weights"):
            count = layout[f"differing_{what}"]
            yield judged(
                count == 0, f"{count} differ", case=what, method=layout["name"], value=count, tolerance=0,
                unit=f"differing {what}", **labels,
            )  # fmt: skip
