"""Files of evidence, of which a torn one is refused in one line."""

import json
from pathlib import Path
from typing import Any


class TornRecord(ValueError):
    """A file that was not written to its end, or is no record."""


def read(path: Path) -> dict[str, Any]:
    """The content of a JSON file.

    Raises:
        TornRecord: it is cut, no JSON, or no object.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise TornRecord(f"{path}: cannot be read ({error}); take it anew, or remove it") from None
    if not isinstance(found, dict):
        raise TornRecord(
            f"{path}: is a {type(found).__name__}; must be an object; take it anew, or remove it"
        )
    return found


def kept(file: Path, run: dict[str, Any]) -> dict[str, Any]:
    """The groups of a file of timings from the same device, versions and sources; of another, nothing.

    Raises:
        TornRecord: the file is cut, or a line of it is.
    """
    found = read(file) if file.is_file() else {}
    if found.pop("run", None) != run:
        return {}
    for name in found.keys() - {"unfinished"}:
        lines = found[name] if isinstance(found[name], list) else [found[name]]
        if not all(isinstance(line, dict) and "rows" in line for line in lines):
            raise TornRecord(f"{file}: group {name} has a line without rows; take it anew, or remove it")
    return found
