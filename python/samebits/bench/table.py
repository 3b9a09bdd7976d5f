"""The result as tables: for a terminal, and in Markdown for documents.

This file needs nothing of the package: the documentation site loads it alone.
"""

from collections.abc import Mapping
from typing import Any


def shape(case: Mapping[str, Any]) -> str:
    """The sizes that there are."""
    return " x ".join(str(case[name]) for name in ("tokens", "vocab", "hidden") if case[name])


def place(case: Mapping[str, Any]) -> str:
    """Threads or GPU."""
    if case["device"].startswith("cuda"):
        return case["device"]
    return f"{case['threads']} thread{'s' if case['threads'] > 1 else ''}"


def call(case: Mapping[str, Any]) -> str:
    """What is called, in one line; of a case or of an entry of the result, as `shape` and `place`."""
    return f"{case['op']} {case['mode']} {case['dtype']}, {shape(case)}, {place(case)}"


def title(case: dict[str, Any]) -> str:
    """What was measured, in one line."""
    several = case["inputs_in_a_row"]
    return f"{call(case)}, " + (f"{several} inputs in a row" if several > 1 else f"{case['cache']} cache")


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit that suits, and its size in seconds."""
    return next(
        (u, size) for u, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)) if seconds >= size or u == "us"
    )


def _rate_unit(case: dict[str, Any]) -> tuple[str, float]:
    if not case["unit"]:
        return "", 1.0
    fastest = max(one["rate"] for one in case["contestants"])
    prefix, size = ("T", 1e12) if case["unit"] == "FLOP" and fastest >= 1e12 else ("G", 1e9)
    return f"{prefix}{case['unit']}/s", size


def number(value: float) -> str:
    """Three digits, without an exponent where it is not needed."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def headings(case: dict[str, Any]) -> tuple[str, ...]:
    """Of the columns of a case."""
    time, _ = time_unit(_shortest(case))
    return ("", time, _rate_unit(case)[0], "of ceiling", "/fastest", "/samebits", "MiB", "differs")


def _shortest(case: dict[str, Any]) -> float:
    return min(one["seconds"]["median"] for one in case["contestants"])


def rows(case: dict[str, Any]) -> list[tuple[str, ...]]:
    """A line for each ceiling, then one for each contestant, the fastest first; as in `headings`."""
    _, time = time_unit(_shortest(case))
    _, rate = _rate_unit(case)
    found = [
        (name, number(entry["median"] / time), "", "", "", "", "", "")
        for name, entry in case["ceilings"].items()
    ]
    for one in sorted(case["contestants"], key=lambda c: c["seconds"]["median"]):
        share, peak, apart = one["share_of_ceiling"], one["peak_bytes"], one["difference_from_samebits"]
        found.append(
            (
                one["name"],
                number(one["seconds"]["median"] / time),
                "" if one["rate"] is None else number(one["rate"] / rate),
                "" if share is None else f"{100 * share:.0f}%",
                f"{one['times_the_fastest']:.2f}",
                f"{one['times_samebits']:.2f}",
                "" if peak is None else f"{peak / 2**20:.0f}",
                "" if one["name"] == "samebits" else f"{apart:.0e}" if apart else "0",
            )
        )
    return found


def price_line(case: dict[str, Any]) -> str:
    """The price of determinism, as a sentence."""
    price = case["price_of_determinism"]
    parts = []
    if price["other"]:
        parts.append(f"{price['times_the_other']:.2f} x {price['other']}")
    if price["times_the_ceiling"]:
        parts.append(f"{price['times_the_ceiling']:.2f} x its ceiling")
    if not parts:
        return ""
    return f"price of determinism: {price['reproducible']} takes {' and '.join(parts)}"


def notes(entries: list[dict[str, Any]]) -> list[str]:
    """Who is not quite alike, and who did not run; each once."""
    found: dict[str, list[str]] = {}
    for case in entries:
        for one in case["contestants"]:
            if one["note"]:
                found.setdefault(f"{one['note']}", []).append(f"{case['op']}: {one['name']}")
        for one in case["not_run"]:
            found.setdefault(f"did not run: {one['reason']}", []).append(f"{case['op']}: {one['name']}")
    return [f"{', '.join(dict.fromkeys(names))}: {text}" for text, names in found.items()]


def show(console, data: dict[str, Any]) -> None:
    """Tables on a terminal."""
    from rich.table import Table

    for case in data["cases"]:
        made = Table(
            title=title(case), title_justify="left", title_style="bold", box=None, padding=(0, 1, 0, 0)
        )
        for at, heading in enumerate(headings(case)):
            made.add_column(heading, justify="left" if at == 0 else "right", no_wrap=True)
        for row in rows(case):
            made.add_row(
                *row, style="dim" if row[0] in case["ceilings"] else "bold" if row[0] == "samebits" else ""
            )
        console.print(made)
        if line := price_line(case):
            console.print(f"  {line}", style="cyan", highlight=False)
        console.print()
    for note in notes(data["cases"]):
        console.print(f"  {note}", style="dim", markup=False, highlight=False)


def markdown(data: dict[str, Any]) -> str:
    """All cases as Markdown."""
    lines = [", ".join(f"{key} {value}" for key, value in data["machine"].items() if value is not None) + "."]
    for case in data["cases"]:
        lines += ["", f"**{title(case)}**", "", "| " + " | ".join(headings(case)) + " |"]
        lines.append("|---|" + "---:|" * 7)
        lines += ["| " + " | ".join(row) + " |" for row in rows(case)]
        if line := price_line(case):
            lines += ["", f"{line[0].upper()}{line[1:]}."]
    if data["cases"]:
        lines += ["", *(f"- {line}" for line in notes(data["cases"]))]
    return "\n".join(lines) + "\n"
