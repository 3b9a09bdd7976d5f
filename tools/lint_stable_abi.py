"""libsamebits_torch*.so may need only torch's C shims: no at::, no c10::, no Python symbol.

As a lint it looks at whatever modules have been built; as a command it checks the files named.
"""

import re
import subprocess
import sys
from pathlib import Path

FORBIDDEN = re.compile(r"\b(at|c10|caffe2)::|\b_?Py[A-Z_]\w*|\btorch::(?!headeronly::)")


def bad_symbols(library: Path) -> list[str]:
    command = ["nm", "-DC", "--undefined-only", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [line.split(maxsplit=1)[1] for line in lines]
    if not any(symbol.startswith("aoti_torch_") for symbol in symbols):
        return ["uses no torch shim at all; is this the right file?"]
    return [symbol for symbol in symbols if FORBIDDEN.search(symbol)]


def problems(root: Path, files: list[Path]) -> list[str]:
    libraries = sorted(root.glob("build/*/python/samebits/libsamebits_torch*.so"))
    return [f"{lib.relative_to(root)}: {symbol}" for lib in libraries for symbol in bad_symbols(lib)]


if __name__ == "__main__":
    found = [f"{name}: {symbol}" for name in sys.argv[1:] for symbol in bad_symbols(Path(name))]
    print("\n".join(found) or f"stable ABI only: {' '.join(sys.argv[1:])}")
    sys.exit(1 if found else 0)
