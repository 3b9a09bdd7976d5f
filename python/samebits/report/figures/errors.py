"""Errors of derivatives over their order, each precision in its panel and each method on its own."""

import math
from collections.abc import Iterable

from samebits.check.cases import PRECISIONS
from samebits.check.methods import METHODS
from samebits.report.case import SKIPPED, Case
from samebits.report.figures.style import FAILED, GRID, INK, MARKERS, MUTED, SERIES, UNTESTED, sheet

CAPTION = (
    "Above: the largest error of each method, dashed the tolerance of that element. Below: the largest share "
    "of its tolerance that any element used; the line is the tolerance. Gray orders are untested; hollow "
    "markers on the bottom line are exact zeros."
)
ORDERS = range(1, 9)
_APART = 0.13  # of neighbouring methods


def draw(cases: list[Case]):
    """Two rows of panels, one column for each precision."""
    figure = sheet(16, 7.2, "Errors of derivatives by precision, order and method")
    found: dict[tuple, list[Case]] = {}
    for case in cases:
        if case.section == "errors" and case.status != SKIPPED:
            found.setdefault((case.dtype, case.method, case.order), []).append(case)
    for at, precision in enumerate(PRECISIONS):
        left = 0.05 + 0.192 * at
        above = figure.add_axes((left, 0.52, 0.158, 0.37))
        below = figure.add_axes((left, 0.12, 0.158, 0.31))
        above.set_title(precision.name, loc="left", fontsize=11, weight="bold", color=INK)
        here = {key[1:]: group for key, group in found.items() if key[0] == precision.name}
        panel(above, here, "value", tolerance=True)
        panel(below, here, "share", tolerance=False)
        below.axhline(1.0, color=INK, linewidth=1.2)
        below.set_ylim(top=max(4.0, below.get_ylim()[1]))
        below.text(8.4, 1.15, "tolerance", fontsize=7.5, ha="right", va="bottom", color=INK)
        below.set_xlabel("order of the derivative", fontsize=8.5)
        if at == 0:
            above.set_ylabel("largest absolute error", fontsize=9)
            below.set_ylabel("largest share of the tolerance", fontsize=9)
            key(figure)
    return figure


def panel(axes, here: dict[tuple, list[Case]], field: str, tolerance: bool) -> None:
    """One precision: a line for each method."""
    points = {
        (method, order): worst(here.get((method, order), ()), field) for method in METHODS for order in ORDERS
    }
    sizes = [getattr(case, field) for case in points.values() if case is not None]
    low = 10 ** _exponent(min((size for size in sizes if size and math.isfinite(size)), default=1e-3))
    axes.set_yscale("log")
    zero_at = low / 30
    for order in ORDERS:
        if all(points[method, order] is None for method in METHODS):
            axes.axvspan(order - 0.5, order + 0.5, color=UNTESTED, linewidth=0)
    for place, method in enumerate(METHODS):
        shift = (place - (len(METHODS) - 1) / 2) * _APART
        colour, marker = SERIES[place], MARKERS[place]
        drawn = [(order, case) for order in ORDERS if (case := points[method, order]) is not None]
        seen = [(order + shift, getattr(case, field), case) for order, case in drawn]
        axes.plot(
            [x for x, y, _ in seen if y], [y for _, y, _ in seen if y],
            color=colour, marker=marker, markersize=4, linewidth=0.8,
        )  # fmt: skip
        zeros = [x for x, y, _ in seen if y == 0]
        axes.plot(zeros, [zero_at] * len(zeros), marker, markersize=5, markerfacecolor="none", color=colour)
        for x, y, case in seen:
            if case.status == "failed":
                axes.plot(
                    [x],
                    [y if y and math.isfinite(y) else zero_at],
                    "x",
                    color=FAILED,
                    markersize=9,
                    markeredgewidth=2,
                )
        if tolerance:
            held = [(x, case.tolerance) for x, _, case in seen if case.tolerance]
            axes.plot([x for x, _ in held], [y for _, y in held], color=colour, linewidth=0.9, dashes=(3, 2))
    axes.axhline(zero_at, color=GRID, linewidth=1)
    axes.text(0.55, zero_at, "0", fontsize=7.5, va="bottom", color=MUTED)
    axes.set_xlim(0.5, 8.5)
    axes.set_ylim(bottom=zero_at / 3)
    axes.set_xticks(list(ORDERS))
    axes.minorticks_off()
    axes.tick_params(length=2, labelsize=8)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def worst(cases: Iterable[Case], field: str) -> Case | None:
    """The failed case, or the one with the largest number; None where nothing was measured."""
    measured = [case for case in cases if getattr(case, field) is not None]
    return max(measured, key=lambda case: (case.status == "failed", getattr(case, field)), default=None)


def _exponent(value: float) -> int:
    """Of the power of ten below; from the text, so that it is the same everywhere."""
    return int(f"{value:e}".partition("e")[2])


def key(figure) -> None:
    """Which colour and marker is which method."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=SERIES[at], marker=MARKERS[at], markersize=5, linewidth=0.9, label=method)
        for at, method in enumerate(METHODS)
    ]
    lines.append(Line2D([], [], color=MUTED, linewidth=0.9, dashes=(3, 2), label="tolerance of that element"))
    hollow = {"marker": "o", "markerfacecolor": "none", "linewidth": 0, "color": MUTED}
    lines.append(Line2D([], [], **hollow, label="exactly 0"))
    figure.legend(
        handles=lines, loc="lower left", bbox_to_anchor=(0.04, 0.0), ncols=6, fontsize=8.5, frameon=False
    )
