"""The tables: which operator, dtype and method was held to what."""

from samebits.check.cases import PRECISIONS
from samebits.check.invariance.trials import AXES
from samebits.check.methods import METHODS
from samebits.check.op.operators import OPERATORS as CHECKED
from samebits.check.probe.operators import OPERATORS as PROBED
from samebits.report.case import Case
from samebits.report.context import DTYPES
from samebits.report.figures import grid
from samebits.report.sections import grpo as grpo_section
from samebits.report.sections import invariance as invariance_section
from samebits.report.sections import layouts as layout_section
from samebits.report.sections import operators as operator_section
from samebits.report.sections import probe as probe_section
from samebits.report.sections import training as training_section

OVERVIEW = "Every operator and dtype by section: exact zeros, the worst share of a tolerance, failures, gaps."
DERIVATIVES = "Worst share of the tolerance, by precision, method and order of the derivative."
OPERATORS = (
    "Every operator and dtype by the cells of the tolerance file: the worst share of a tolerance, and "
    "elements whose bits depend on the batch."
)
PROBE = "What ran on each path that the plan did not name, or did not run that it names."
GRPO = "Losses and weights of six optimisation steps in other layouts, against the first run."
INVARIANCE = "Elements whose bits depend on the batch, by what the batch varies in."
LAYOUTS = "Elements whose bits differ from those of one call on the whole batch."
TRAINING = "Parameters whose bits differ after three steps of SGD."
_SHARE = "Numbers: the largest share of its tolerance that any element used."
_OPERATORS = ("logp", "linear_logp", "linear", "embedding")


def by(cases: list[Case], section: str | None, row, column) -> grid.Cells:
    """The cases of a section, or of all, by the text that `row` and `column` give."""
    cells: grid.Cells = {}
    for case in cases:
        if section in (None, case.section):
            cells.setdefault((row(case), column(case)), []).append(case)
    return cells


def _operator_dtype(case: Case) -> str:
    return f"{case.operator} {case.dtype}".strip()


def overview(cases: list[Case]):
    """Rows: operators and dtypes; columns: sections."""
    rows = [f"{operator.name} {dtype}" for operator in CHECKED.values() for dtype in operator.dtypes]
    cells: grid.Cells = {}
    for case in cases:
        for operator in case.operator.split(", "):
            dtype = case.dtype.partition(" ")[0]  # "bf16 in fp64" has logits in bf16
            cells.setdefault((f"{operator} {dtype}", case.section), []).append(case)
    of_operators = {section for row, section in cells if row in rows} - {"bench"}  # speed is not held to
    sections = [name for name in dict.fromkeys(case.section for case in cases) if name in of_operators]
    return grid.draw("Overview", rows, sections or ["none"], cells, _SHARE)


def operators(cases: list[Case]):
    """Rows: operators and dtypes; columns: judgments."""
    rows = [f"{operator.name} {dtype}" for operator in CHECKED.values() for dtype in operator.dtypes]
    cells = by(cases, "operators", _operator_dtype, lambda case: case.method)
    title = "Accuracy (share of the tolerance) and invariance (differing elements)"
    return grid.draw(title, rows, operator_section.JUDGMENTS, cells, _SHARE, 1.5)


def probe(cases: list[Case]):
    """Rows: paths; columns: operators and dtypes."""
    found = [case for case in cases if case.section == "probe"]
    rows = list(dict.fromkeys(case.method for case in found if case.method))
    columns = [f"{operator} {dtype}" for dtype in probe_section.DTYPES for operator in PROBED]
    cells = by(found, None, lambda case: case.method, _operator_dtype)
    note = "Numbers: broken promises. Gray: the operator has no such path."
    return grid.draw("What ran on each path, against its plan", rows or ["none"], columns, cells, note, 1.2)


def grpo(cases: list[Case]):
    """Rows: layouts; columns: losses and weights of each dtype."""
    found = [case for case in cases if case.section == "grpo"]
    rows = list(dict.fromkeys(case.method for case in found if case.method))
    columns = [f"{what} {dtype}" for dtype in grpo_section.DTYPES for what in ("losses", "weights", "")]
    columns = [column.strip() for column in columns]
    known = {"losses", "weights"}
    cells = by(
        found, None, lambda case: case.method,
        lambda case: f"{case.case if case.case in known else ''} {case.dtype}".strip(),
    )  # fmt: skip
    note = "Numbers: losses and weights whose bits differ from those of the first run."
    return grid.draw(
        "Strict GRPO: every layout against the first", rows or ["none"], columns, cells, note, 1.1
    )


def derivatives(cases: list[Case]):
    """Rows: precisions and methods; columns: orders."""
    rows = [f"{precision.name}, {method}" for precision in PRECISIONS for method in METHODS]
    cells = by(cases, "errors", lambda case: f"{case.dtype}, {case.method}", lambda case: str(case.order))
    orders = [str(order) for order in range(1, 9)]
    return grid.draw("Derivatives: share of the tolerance, by order", rows, orders, cells, _SHARE, 0.7)


def invariance(cases: list[Case]):
    """Rows: operators and dtypes; columns: what a batch may vary in."""
    rows = [f"{operator} {dtype}" for operator in invariance_section.TARGETS for dtype in DTYPES]
    cells = by(cases, "invariance", _operator_dtype, lambda case: case.method)
    title = "Invariance: values and gradients of a row in other batches"
    return grid.draw(title, rows, AXES, cells, "Numbers: elements whose bits differ.")


def layouts(cases: list[Case]):
    """Rows: operators and dtypes; columns: layouts."""
    rows = [f"{operator} {dtype}" for operator in _OPERATORS for dtype in DTYPES]
    cells = by(cases, "layouts", _operator_dtype, lambda case: case.method)
    title = "Layouts: values and gradients against one call on the whole batch"
    return grid.draw(title, rows, layout_section.LAYOUTS, cells, "Numbers: elements whose bits differ.")


def training(cases: list[Case]):
    """Rows: models and dtypes; columns: layouts."""
    rows = [f"{model.operator} {dtype}" for model in training_section.MODELS for dtype in model.dtypes]
    cells = by(cases, "training", _operator_dtype, lambda case: case.method)
    title = "Three steps of SGD: parameters against those of the packed batch"
    note = "Numbers: parameters whose bits differ. Gray: a layout that the model's sums over tokens follow."
    return grid.draw(title, rows, training_section.METHODS, cells, note)
