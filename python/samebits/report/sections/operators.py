"""Accuracy and invariance of every operator by the cells of the tolerance file."""

import argparse
from collections.abc import Iterator

from samebits.check import op
from samebits.check.errors import CheckError
from samebits.check.op.operators import OPERATORS, Operator
from samebits.report.case import Case
from samebits.report.context import Context, judged, skipped

TITLE = "Operators: accuracy and invariance"
ABOUT = (
    "Every operator and dtype, values and gradients, against a binary64 reference that shares no code with "
    "the library, by the derived cells of tolerance.json; and raw bits of the same rows repeated, permuted, "
    "split, alone, and between padding. The share is of the element that uses most of its tolerance."
)
JUDGMENTS = ("forward accuracy", "gradient accuracy", "forward invariance", "gradient invariance")


def cases(context: Context) -> Iterator[Case]:
    """One case for each operator, dtype, judgment and output or gradient."""
    for operator in OPERATORS.values():
        for dtype in operator.dtypes:
            labels = {"operator": operator.name, "dtype": dtype}
            reason = too_much(operator, context)
            if reason:
                yield skipped(reason, case="all", **labels)
                continue
            yield from checked(operator.name, dtype, [], context)
    if context.on_cuda and not context.quick:
        yield from checked("linear_logp", "bf16", ["--vocab", "131072", "--hidden", "2688"], context)


def too_much(operator: Operator, context: Context) -> str:
    """Why an operator with the sizes of a model is left out, or nothing."""
    if operator.model and not context.on_cuda:
        return "minutes on a CPU at the size of the model"
    return "--quick leaves out the size of the model" if operator.model and context.quick else ""


def checked(name: str, dtype: str, sizes: list[str], context: Context) -> Iterator[Case]:
    """One operator in one dtype."""
    options = ["--op", name, "--dtype", dtype, "--check-grad", *sizes]
    parser = argparse.ArgumentParser()
    op.add_arguments(parser)
    place = ["--device", context.device, "--seed", str(context.seed)]
    context.commands.append(" ".join(["python -m samebits.check op", *options, *place]))
    asked = parser.parse_args(options, argparse.Namespace(device=context.device, seed=context.seed))
    labels = {"operator": name, "dtype": dtype}
    try:
        found = op.run(asked, context)
    except CheckError as error:
        yield judged(False, str(error), case="all", **labels)
        return
    size = f" at {sizes[1]} x {sizes[3]}" if sizes else ""
    for result in found["results"]:
        for line in result["lines"]:
            yield judge(line, size, labels)


def judge(line: dict, size: str, labels: dict[str, str]) -> Case:
    """A line of the checker's table."""
    labels = {"case": f"{line['output']}{size}", "method": line["judgment"].replace("_", " "), **labels}
    if "differing" in line:
        where = ", ".join(trial["trial"] for trial in line["trials"] if trial["differing"])
        return judged(
            line["passed"], f"{line['differing']} of {line['elements']} elements differ: {where}",
            value=line["differing"], tolerance=0, unit="differing elements", **labels,
        )  # fmt: skip
    share, tolerance = line["share"], line["tolerance"]
    known = share is not None and tolerance is not None
    return judged(
        line["passed"], f"element {line['worst']['index']} is beyond its tolerance", share=share,
        value=share * tolerance if known else None, tolerance=tolerance, unit="absolute error", **labels,
    )  # fmt: skip
