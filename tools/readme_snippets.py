"""Copies examples/quickstart.* into README.md's fenced blocks; --check only says whether they differ."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = {"python": "quickstart.py", "cpp": "quickstart.cpp", "sh": "quickstart.sh"}


def updated(readme: str) -> str:
    """README with each fenced block of a known language replaced by its example file."""
    for language, name in BLOCKS.items():
        text = (ROOT / "examples" / name).read_text()
        block = f"```{language}\n{text}```"
        readme, count = re.subn(rf"```{language}\n.*?```", lambda _: block, readme, flags=re.S)  # noqa: B023
        if count != 1:
            raise SystemExit(
                f"README.md has {count} blocks of {language}; it should have one, examples/{name}"
            )
    return readme


def main() -> int:
    path = ROOT / "README.md"
    before = path.read_text()
    after = updated(before)
    if before == after:
        return 0
    if "--check" in sys.argv:
        print("README.md: its quick starts differ from examples/; run tools/readme_snippets.py")
        return 1
    path.write_text(after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
