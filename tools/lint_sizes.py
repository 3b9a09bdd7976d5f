"""Caps on the length of files, so that each can be read in one sitting. The first matching pattern counts."""

from fnmatch import fnmatch
from pathlib import Path

CAPS = [
    ("src/cuda/launch/*", 150),
    ("include/samebits/*.h", 250),
    ("bindings/torch/*", 150),
    ("tests/golden/*", None),
    ("src/*", 350),
    ("tests/*", 350),
    ("bench/*", 350),
    ("examples/*", 350),
    ("python/*", 350),
    ("tools/*", 350),
    ("cmake/*", 150),
]
SOURCE = {".h", ".cpp", ".cu", ".cuh", ".inc", ".py", ".cmake", ".txt", ".sh"}
LARGE_BYTES = 1 << 20


def problems(root: Path, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        size = (root / path).stat().st_size
        if size > LARGE_BYTES:
            found.append(f"{path}: {size} bytes; a file in the repository has at most {LARGE_BYTES}")
        if path.suffix not in SOURCE:
            continue
        cap = next((cap for pattern, cap in CAPS if fnmatch(path.as_posix(), pattern)), None)
        if cap is None:
            continue
        lines = (root / path).read_text().count("\n")
        if lines > cap:
            found.append(f"{path}: {lines} lines; the cap here is {cap}")
    return found
