"""The sections of a report, in the order in which they run.

A section is a module with `TITLE`, `ABOUT` (what its cases show) and `cases(context)`, which yields a
:class:`~samebits.report.case.Case` for everything it looked at and for everything it could not look at.
"""

from types import ModuleType

from samebits.report.sections import errors, golden, gradcheck, invariance, layouts, training

SECTIONS: dict[str, ModuleType] = {
    "golden": golden,
    "invariance": invariance,
    "layouts": layouts,
    "training": training,
    "gradcheck": gradcheck,
    "errors": errors,
}
