"""The folder of a report: claimed by one run, written file by file, never touched once it is complete.

``run.json`` comes first and says what is being reported, then ``parts/SECTION.json`` as sections finish, then
``cases.csv``, figures and page; the manifest ``SHA256SUMS`` comes last and closes the report. Each file
appears whole or not at all, so a run that was killed at any moment is taken up again where it stopped.
"""

import fcntl
import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samebits.report.errors import ReportError

RUN, CASES, PAGE, MANIFEST, PARTS, FIGURES, DATA = (
    "run.json", "cases.csv", "report.html", "SHA256SUMS", "parts", "figures", "data",
)  # fmt: skip
UNFINISHED = ".partial"


def write(path: Path, content: str | bytes) -> None:
    """The file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + UNFINISHED)
    data = content.encode() if isinstance(content, str) else content
    with open(partial, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_json(path: Path, content: Any) -> None:
    """The same for plain data."""
    write(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def read_text(path: Path) -> str:
    """The words of a file; a ReportError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{path}: cannot be read ({error})") from None


def read_json(path: Path) -> Any:
    """Plain data; a ReportError when it cannot be read."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ReportError(f"{path}: cannot be read ({error})") from None


def claim(folder: Path, identity: dict[str, Any]) -> bool:
    """True when an interrupted report of the same identity is taken up, False when a new one begins.

    Raises ReportError, before anything is written, when the folder holds anything else.
    """
    held = [path for path in folder.iterdir() if path.suffix != UNFINISHED]
    if not held:
        return False
    if (folder / MANIFEST).exists():
        raise ReportError(
            f"--out {folder}: holds a complete report, which is never altered; name a new folder"
        )
    if not (folder / RUN).exists():
        raise ReportError(f"--out {folder}: is not empty; must be a new or empty folder")
    run = read_json(folder / RUN)
    before = run.get("identity") if isinstance(run, dict) else None
    if not isinstance(before, dict):
        raise ReportError(f"--out {folder}: its {RUN} is not that of a report; name a new folder")
    for name in dict.fromkeys((*before, *identity)):
        if before.get(name) != identity.get(name):
            raise ReportError(
                f"--out {folder}: holds an interrupted report with {name} {before.get(name)!r}, and this one "
                f"has {identity.get(name)!r}; name a new folder"
            )
    return True


def made(folder: Path) -> Path:
    """The folder, made if need be."""
    if folder.exists() and not folder.is_dir():
        raise ReportError(f"--out {folder}: is a file; must be a new or empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def held(folder: Path):
    """Keep other runs away; the kernel lets go of the folder however this process ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ReportError(f"{folder}: another run is writing there") from None
        yield
    finally:
        os.close(descriptor)


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(folder: Path) -> list[str]:
    """Every file of the report but the manifest, sorted."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != MANIFEST)


def manifest(folder: Path) -> str:
    """A line for each file, as ``sha256sum --check`` reads them."""
    return "".join(f"{digest(folder / name)}  {name}\n" for name in files(folder))
