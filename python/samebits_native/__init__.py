"""The C++ side of samebits: library, headers, CMake package and the ``samebits`` command. Needs no torch."""

import os
import sys
from pathlib import Path


def command() -> None:
    """Run the ``samebits`` command with this process's arguments."""
    program = Path(__file__).parent / "bin" / "samebits"
    if not program.exists():
        sys.exit(f"samebits: {program} is missing; this installation was built without the command")
    os.execv(program, [str(program), *sys.argv[1:]])
