"""Does a row have the same bits in every batch? The auditor's answer."""

import argparse
from collections.abc import Iterator

from torch import Tensor

import samebits as sb
from samebits.check import invariance
from samebits.check.errors import CheckError
from samebits.check.invariance.trials import AXES
from samebits.report.case import FAILED, PASSED, Case
from samebits.report.context import DTYPES, Context, judged, skipped

TITLE = "Invariance"
ABOUT = (
    "Batch sizes, positions, packings, chunks, strides, repeats, threads, backends: the auditor calls each "
    "operator in many batches and counts the bits of values and gradients that differ from one call on the "
    "whole. A function that depends on its batch is planted, and must be found."
)
TARGETS = ("logp", "linear_logp", "matmul")
PLANTED = f"{__name__}:depends_on_the_batch"


def depends_on_the_batch(logits: Tensor, targets: Tensor) -> Tensor:
    """logp, moved by the number of rows."""
    return sb.logp(logits, targets) - len(logits) * 2.0**-20


def cases(context: Context) -> Iterator[Case]:
    """One case for each operator, dtype, axis and output."""
    for target in TARGETS:
        for short in DTYPES:
            yield from audited(target, short, context)
    found = run(PLANTED, "fp32", context)
    yield judged(
        not found["passed"], "the auditor did not see a function that depends on its batch",
        case="a planted dependence on the batch is found", dtype="fp32", method="size",
    )  # fmt: skip


def run(target: str, dtype: str, context: Context) -> dict:
    """The auditor on one target, as its command runs it."""
    options = [
        "--target", target, "--dtype", dtype, "--rows", "33" if context.quick else "129", "--vocab", "515",
        "--hidden", "96" if context.quick else "352", "--threads", "1", "2", "3",
    ]  # fmt: skip
    if target in TARGETS:
        options.append("--check-grad")
    parser = argparse.ArgumentParser()
    invariance.add_arguments(parser)
    place = ["--device", context.device, "--seed", str(context.seed)]
    context.commands.append(" ".join(["python -m samebits.check invariance", *options, *place]))
    asked = parser.parse_args(options, argparse.Namespace(device=context.device, seed=context.seed))
    return invariance.run(asked, context)


def audited(target: str, dtype: str, context: Context) -> Iterator[Case]:
    """Every line of one audit, and the axes that it did not try."""
    labels = {"operator": target, "dtype": dtype}
    try:
        found = run(target, dtype, context)
    except CheckError as error:
        yield judged(False, str(error), case="the whole batch", **labels)
        return
    for line in found["lines"]:
        yield judge(line, found, labels)
    for axis in AXES:
        if not any(line["axis"] == axis for line in found["lines"]):
            yield skipped(f"not tried on {context.device}", case="all", method=axis, **labels)


def judge(line: dict, found: dict, labels: dict[str, str]) -> Case:
    """A line of the auditor's table; a call that was refused shows nothing."""
    name = {"case": line["output"], "method": line["axis"], **labels}
    reasons = [entry["reason"] for entry in found["refusals"] if entry["axis"] == line["axis"]]
    if line["elements"] == 0:
        return skipped(reasons[0] if reasons else "no element was compared", **name)
    differing = line["differing"]
    reason = f"{differing} of {line['elements']} elements differ" if differing else ""
    if line["refused"]:
        reason = f"{reason}; {line['refused']} of {line['calls']} calls refused: {reasons[0]}".lstrip("; ")
    return Case(
        status=FAILED if differing else PASSED, value=differing, tolerance=0, unit="differing elements",
        reason=reason, **name,
    )  # fmt: skip
