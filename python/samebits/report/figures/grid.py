"""A table of cells: what was found at each place, and gray where nothing was looked at."""

from collections.abc import Sequence

from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path

from samebits.report.case import FAILED as FAILED_STATUS
from samebits.report.case import SKIPPED, Case
from samebits.report.figures.style import FAILED, INK, MUTED, UNTESTED, ZERO, sheet

Cells = dict[tuple[str, str], list[Case]]
_PASSED = "#cfe8e3"  # within its tolerance, or passed without a number
LEGEND = (
    ("exactly 0", ZERO, "white"), ("within its tolerance", _PASSED, INK), ("failed", FAILED, "white"),
    ("untested", UNTESTED, INK),
)  # fmt: skip


def look(cases: list[Case]) -> tuple[str, str, str]:
    """(text, colour, colour of the text) of the cell that holds these cases."""
    measured = [case for case in cases if case.status != SKIPPED]
    if not measured:
        return "", UNTESTED, INK
    failed = sum(case.status == FAILED_STATUS for case in measured)
    if failed:
        return f"{failed} of {len(measured)}", FAILED, "white"
    shares = [case.share for case in measured if case.share is not None]
    if shares and max(shares) > 0:
        return number(max(shares)), _PASSED, INK
    exact = bool(shares) or any(case.tolerance == 0 for case in measured)
    return ("0", ZERO, "white") if exact else ("passed", _PASSED, INK)


def number(value: float) -> str:
    """Three characters or so."""
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def draw(
    title: str, rows: Sequence[str], columns: Sequence[str], cells: Cells, note: str, wide: float = 0.95
):
    """A figure of the table."""
    left, top, bottom, line = 2.6, 0.9, 0.6, 0.27
    figure = sheet(left + wide * len(columns) + 0.3, top + line * len(rows) + bottom, title)
    width, height = figure.get_size_inches()
    axes = figure.add_axes(
        (left / width, bottom / height, wide * len(columns) / width, line * len(rows) / height)
    )
    boxes: dict[str, list] = {}
    for at, row in enumerate(rows):
        for along, column in enumerate(columns):
            text, colour, ink = look(cells.get((row, column), []))
            boxes.setdefault(colour, []).append(_box(along, at))
            axes.text(along + 0.5, at + 0.52, text, ha="center", va="center", fontsize=8, color=ink)
    for colour, paths in boxes.items():  # one shape of each colour: files stay small
        axes.add_patch(PathPatch(Path.make_compound_path(*paths), facecolor=colour, edgecolor="none"))
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_xticks([along + 0.5 for along in range(len(columns))], columns, fontsize=8.5)
    axes.set_yticks([at + 0.5 for at in range(len(rows))], rows, fontsize=8.5)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    _legend(figure, note)
    return figure


def _box(x: float, y: float) -> Path:
    left, right, top, bottom = x + 0.02, x + 0.98, y + 0.04, y + 0.96
    return Path([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], closed=True)


def _legend(figure, note: str) -> None:
    width, height = figure.get_size_inches()
    axes = figure.add_axes((0, 0, 1, 0.5 / height))
    axes.set_xlim(0, width)
    axes.set_ylim(0, 0.5)
    axes.set_axis_off()
    x = 0.2
    for words, colour, _ in LEGEND:
        axes.add_patch(Rectangle((x, 0.24), 0.16, 0.14, facecolor=colour))
        axes.text(x + 0.22, 0.31, words, fontsize=8, va="center", color=INK)
        x += 0.5 + 0.085 * len(words)
    axes.text(0.2, 0.1, note, fontsize=7.5, color=MUTED, va="center")
