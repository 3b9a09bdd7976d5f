"""Every benchmark of this folder, one after the other: speed against PyTorch, then the cost of a call."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    """Arguments are passed on to the first, for example --seconds 1 for a quick look."""
    built = sorted(HERE.parent.glob("build/*/bench/samebits_bench"), key=lambda path: path.stat().st_mtime)
    cpp = ["--cpp", built[-1]] if built else []
    subprocess.run([sys.executable, HERE / "logp_vs_torch.py", *sys.argv[1:]], check=True)
    subprocess.run([sys.executable, HERE / "call_overhead.py", *cpp], check=True)


if __name__ == "__main__":
    main()
