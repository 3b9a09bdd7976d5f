"""Pictures of a result: one for each operator, pass, dtype and place; a bar for each contestant and shape."""

import re
from pathlib import Path
from typing import Any

from .table import place, shape, time_unit

COLOURS = ("#0f766e", "#c2412d", "#c98a1b", "#3b5bdb", "#862e9c", "#5c940d", "#d6336c", "#495057")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
INK, GRID = "#1f2933", "#e4e7eb"


def look(number: int) -> dict[str, str]:
    """Colour and hatch of a contestant by its place: 64 that differ."""
    return {"color": COLOURS[number % 8], "hatch": HATCHES[(number + number // 8) % 8]}


def draw(folder: Path, data: dict[str, Any]) -> list[Path]:
    """Writes a PNG and an SVG for each group of cases; the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in data["cases"]:
        groups.setdefault(f"{case['op']} {case['mode']} {case['dtype']} {place(case)}", []).append(case)
    written = []
    for name, cases in groups.items():
        stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
        written += _draw(folder / stem, name, cases, data["machine"])
    return written


def _draw(stem: Path, name: str, cases: list[dict[str, Any]], machine: dict[str, Any]) -> list[Path]:
    from matplotlib.figure import Figure  # not pyplot: no window system, no global state

    order = list(dict.fromkeys(one["name"] for case in cases for one in case["contestants"]))
    height = 0.32 * sum(len(case["contestants"]) + 1 for case in cases)
    figure = Figure(figsize=(9.5, 1.7 + height), dpi=130, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    longest = max(one["seconds"]["median"] for case in cases for one in case["contestants"])
    unit, size = time_unit(longest)
    at, ticks, labels, seen = 0.0, [], [], set()
    for case in cases:
        top = at
        for one in case["contestants"]:
            number = order.index(one["name"])
            time = one["seconds"]["median"] / size
            axes.barh(
                at, time, 0.8, **look(number), edgecolor="white",
                label=None if one["name"] in seen else one["name"],
            )  # fmt: skip
            axes.text(time, at, f" {time:.3g}", va="center", fontsize=8.5, color=INK)
            seen.add(one["name"])
            if one["ceiling_seconds"]:
                bound = one["ceiling_seconds"] / size
                axes.plot([bound, bound], [at - 0.42, at + 0.42], color="black", linewidth=1.6,
                          label=None if "" in seen else "its ceiling")  # fmt: skip
                seen.add("")
            at += 1
        ticks.append((top + at - 1) / 2)
        labels.append(shape(case))
        at += 1
    axes.set_yticks(ticks, labels)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.12 * longest / size)
    axes.set_xlabel(f"{unit}, median")
    axes.grid(axis="x", color=GRID)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title(name, loc="left", fontsize=12, weight="bold", color=INK)
    chip = machine["gpu"] or machine["cpu"]
    figure.supxlabel(f"{chip}, torch {machine['torch']}, samebits {machine['samebits']}", fontsize=8)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    paths = [stem.with_name(stem.name + ending) for ending in (".png", ".svg")]
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {})
    return paths
