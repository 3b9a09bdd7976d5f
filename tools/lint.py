"""Run every house lint (tools/lint_*.py) over the files git knows. Exit status 1 and one line per problem."""

import importlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tracked_files() -> list[Path]:
    """Files in git plus new ones not ignored, relative to the root; deleted ones left out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted({Path(n) for n in names if n and (ROOT / n).is_file()})


def main() -> int:
    files = tracked_files()
    total = 0
    for module in sorted(Path(__file__).parent.glob("lint_*.py")):
        problems = importlib.import_module(module.stem).problems(ROOT, files)
        total += len(problems)
        for problem in problems:
            print(f"{module.stem}: {problem}")
    print(f"house lints: {len(files)} files, {total} problems")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
