"""The figures of a report, each drawn from its cases alone, so that anyone can draw the same bits again."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from samebits.check.cases import PRECISIONS
from samebits.check.invariance.trials import AXES
from samebits.check.methods import METHODS
from samebits.check.op.operators import OPERATORS as CHECKED
from samebits.check.probe.operators import OPERATORS as PROBED
from samebits.report.case import Case
from samebits.report.figures import errors, speed, tables
from samebits.report.identity import tree_digest


class Drawing(NamedTuple):
    """A figure, what its sections are, and what it shows in words."""

    sections: tuple[str, ...]
    caption: str
    draw: Callable[[list[Case]], object]


FIGURES: dict[str, Drawing] = {
    "overview": Drawing((), tables.OVERVIEW, tables.overview),
    "errors": Drawing(("errors",), errors.CAPTION, errors.draw),
    "derivatives": Drawing(("errors",), tables.DERIVATIVES, tables.derivatives),
    "operators": Drawing(("operators",), tables.OPERATORS, tables.operators),
    "invariance": Drawing(("invariance",), tables.INVARIANCE, tables.invariance),
    "layouts": Drawing(("layouts",), tables.LAYOUTS, tables.layouts),
    "training": Drawing(("training",), tables.TRAINING, tables.training),
    "probe": Drawing(("probe",), tables.PROBE, tables.probe),
    "grpo": Drawing(("grpo",), tables.GRPO, tables.grpo),
    "bench": Drawing(("bench",), speed.CAPTION, speed.draw),
}
FORMATS = ("png", "svg")


def draw_all(cases: list[Case]) -> dict[str, bytes]:
    """File name -> content. The same cases give the same bytes with the same versions of what draws."""
    from samebits.report.figures import style

    drawn = {}
    with style.fixed():
        for name, drawing in FIGURES.items():
            figure = drawing.draw(cases)
            for kind in FORMATS:
                drawn[f"{name}.{kind}"] = style.rendered(figure, kind)
    return drawn


def drawn_with() -> dict[str, str]:
    """Everything but the cases on which the bytes of figures and page depend."""
    from importlib.metadata import version

    found = {name: version(name) for name in ("matplotlib", "numpy", "pillow")}
    # What draws: this package, and the names of rows and columns that it takes from others.
    names = (METHODS, AXES, [precision.name for precision in PRECISIONS], [*PROBED],
             [(operator.name, operator.dtypes) for operator in CHECKED.values()])  # fmt: skip
    package = Path(__file__).absolute().parents[2]
    drawing = tree_digest(package, ("report",), (".py",)) + repr(names)
    return {**found, "drawing": hashlib.sha256(drawing.encode()).hexdigest()[:16]}
