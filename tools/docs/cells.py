"""Tables in Markdown, and the files that they are made from."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table."""
    lines = [list(head), *([_cell(value) for value in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return "not run"
    if isinstance(value, float):
        return f"{value:#.3g}".rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def contestants(
    title: str,
    lines: list[dict],
    label: Callable[[dict], Any],
    key: str,
    wanted: Callable[[str], bool] = lambda name: True,
) -> str:
    """One row for each line, one column for each contestant of any line's `key` that is wanted."""
    names = [name for name in dict.fromkeys(name for line in lines for name in line[key]) if wanted(name)]
    return table([title, *names], ([label(line), *(line[key].get(name) for name in names)] for line in lines))


class TornFile(ValueError):
    """A file that was not written to its end."""


def load(path: Path) -> dict[str, Any] | None:
    """The JSON of a file; None where there is no file, and TornFile where it is cut."""
    try:
        return json.loads(path.read_text()) if path.is_file() else None
    except ValueError as error:
        raise TornFile(f"{path}: cannot be read ({error}); take it anew, or remove it") from None
