"""The sections of a report, in the order in which they run.

A section is a module with `TITLE`, `ABOUT` (what its cases show) and `cases(context)`, which yields a
:class:`~samebits.report.case.Case` for everything it looked at and for everything it could not look at.
"""

from types import ModuleType

from samebits.report.sections import (
    bench,
    docs,
    errors,
    golden,
    gradcheck,
    grpo,
    invariance,
    layouts,
    operators,
    probe,
    training,
)

SECTIONS: dict[str, ModuleType] = {
    "golden": golden,
    "operators": operators,
    "invariance": invariance,
    "layouts": layouts,
    "training": training,
    "gradcheck": gradcheck,
    "errors": errors,
    "probe": probe,
    "grpo": grpo,
    "docs": docs,
    "bench": bench,
}
ALONE = ("bench",)  # what runs beside it would be in its figures
