"""Times of every contestant beside those of samebits."""

from samebits.report.case import PASSED, Case
from samebits.report.figures.style import GRID, INK, MUTED, SERIES, UNTESTED, sheet

CAPTION = (
    "Median time over that of samebits in the same turns: right of the line is slower than samebits. Gray: "
    "could not take part; the reason is in the table."
)
_OURS, _LINE = "samebits", 0.24


def draw(cases: list[Case]):
    """One block for each operator and pass, one line for each contestant."""
    blocks: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        if case.section == "bench" and case.method:
            blocks.setdefault((case.operator, case.case), []).append(case)
    lines = sum(len(block) + 1.6 for block in blocks.values()) or 2.0
    height = 1.1 + _LINE * lines
    figure = sheet(11, height, "Benchmark: time over that of samebits")
    axes = figure.add_axes((0.25, 0.5 / height, 0.66, (height - 1.1) / height))
    at, names = 0.0, []
    for (operator, name), block in blocks.items():
        axes.text(-0.33, at + 0.5, f"{operator}, {name}", fontsize=9, weight="bold", color=INK,
                  transform=axes.get_yaxis_transform(), va="center")  # fmt: skip
        at += 1
        ours = next((case.value for case in block if case.method == _OURS and case.value), None)
        for case in block:
            line(axes, at, case, ours)
            names.append((at + 0.5, case.method))
            at += 1
        at += 0.6
    if not blocks:
        axes.set_facecolor(UNTESTED)
    axes.set_xscale("log", base=2)
    axes.axvline(1.0, color=INK, linewidth=1)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.5) / 3, max(high, 2) * 3)
    ticks = [2.0**power for power in range(-6, 12) if axes.get_xlim()[0] <= 2.0**power <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{tick:.2g}x" for tick in ticks], fontsize=8)
    axes.set_yticks([y for y, _ in names], [name for _, name in names], fontsize=8)
    axes.set_ylim(max(at, 1.0), 0)
    axes.minorticks_off()
    axes.tick_params(length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def line(axes, at: float, case: Case, ours: float | None) -> None:
    """One contestant."""
    if case.status != PASSED or not case.value or not ours:
        axes.axhspan(at + 0.1, at + 0.9, color=UNTESTED, linewidth=0)
        return
    ratio = case.value / ours
    colour = SERIES[0] if case.method.startswith(_OURS) else SERIES[1]
    axes.plot([1.0, ratio], [at + 0.5] * 2, color=colour, linewidth=1.4)
    axes.plot([ratio], [at + 0.5], "o", color=colour, markersize=5)
    side = -1 if ratio < 1 else 1
    axes.annotate(
        f"{ratio:.2g}x, {case.value:.3g} ms", (ratio, at + 0.5), (7 * side, 0), textcoords="offset points",
        va="center", ha="right" if side < 0 else "left", fontsize=7.5, color=MUTED,
    )  # fmt: skip
