"""Every block of code in docs/ is cut from a file that the tests run; commands name what exists.

Blocks of python, cpp, cmake and sh hold nothing but `--8<-- "FILE:SECTION"`, FILE under examples/ or tests/.
Commands that install something or need a GPU are `console` blocks: make targets and files named there exist.
"""

import re
from pathlib import Path

CODE = {"python", "py", "cpp", "c++", "cmake", "sh", "bash"}
OTHER = {"console", "text", ""}
FENCE = re.compile(r"^( *)```([\w+-]*)[^\n]*\n(.*?)^\1```", re.M | re.S)
CUT = re.compile(r'--8<-- "((?:examples|tests)/[^":]+)(?::([\w-]+))?"')
NAMED = re.compile(r"(?<![\w/.$-])((?:examples|tests|tools|bench)/[\w/.-]+\.(?:py|sh|cpp))\b")


def problems(root: Path, files: list[Path]) -> list[str]:
    makefile = (root / "Makefile").read_text() if (root / "Makefile").is_file() else ""
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    found = []
    for path in files:
        if path.parts[0] == "docs" and path.suffix == ".md":
            text = (root / path).read_text()
            for fence in FENCE.finditer(text):
                line = text.count("\n", 0, fence.start()) + 1
                reasons = _block(root, fence[2], fence[3], targets)
                found += [f"{path}:{line}: {reason}" for reason in reasons]
    return found


def _block(root: Path, language: str, body: str, targets: set[str]) -> list[str]:
    """What is wrong with one fenced block."""
    if language in CODE:
        return [
            reason
            for line in body.splitlines()
            if line.strip()
            for reason in _cut(root, language, line.strip())
        ]
    if language not in OTHER:
        return [
            f"a block of {language!r}; may be {', '.join(sorted(CODE | OTHER - {''}))} or have no language"
        ]
    unknown = set(re.findall(r"^(?:\$ )?make ([a-z-]+)", body, re.M)) - targets
    absent = [name for name in NAMED.findall(body) if not (root / name).is_file()]
    return [f"there is no make target {name!r}" for name in sorted(unknown)] + [
        f"there is no {name}" for name in absent
    ]


def _cut(root: Path, language: str, line: str) -> list[str]:
    """What is wrong with one line of a block of code."""
    cut = CUT.fullmatch(line)
    if not cut:
        wanted = '--8<-- "examples/guide/FILE:SECTION"'
        return [f"{language} that no test runs; must be cut from a tested file, {wanted}"]
    file, section = root / cut[1], cut[2]
    if not file.is_file():
        return [f"there is no {cut[1]}"]
    marks = [f"--8<-- [{end}:{section}]" for end in ("start", "end")]
    if section and not all(mark in file.read_text() for mark in marks):
        return [f"{cut[1]} has no section {section!r}"]
    return []
