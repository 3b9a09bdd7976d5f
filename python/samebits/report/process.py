"""Other programs that a section runs, with this process's own samebits."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import samebits


class Ended(NamedTuple):
    """A program that ran: its exit status and the last of what it said."""

    status: int
    words: str


def python(arguments: list[str], folder: Path, **environment: str) -> Ended:
    """Run this Python in `folder`."""
    package = str(Path(samebits.__file__).absolute().parents[1])
    paths = [package, *filter(None, [os.environ.get("PYTHONPATH")])]
    found = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return Ended(found.returncode, "; ".join((found.stdout + found.stderr).split("\n")[-4:]))
