"""What would change bits from one machine, build or run to the next, and what would hide that it did."""

import re
from pathlib import Path

CODE = {".h", ".cpp", ".cu", ".cuh", ".inc", ".py", ".cmake", ".txt", ".toml", ".json", ".sh", ".yaml", ""}
# ruff: noqa: E501
# The files that have to name a forbidden thing in order to forbid it.
EXEMPT = {"cmake/FpFlags.cmake", "tools/lint_bits.py", "tests/packaging/test_configure.py"}
ANYWHERE = {
    r"-ffast-math|-Ofast|-funsafe-math|-fassociative-math|use_fast_math|-ffp-contract=(on|fast)": "fast-math flag",
    r"-m(arch|cpu)=native": "code for one machine only",
    r"\b(TODO|FIXME|XXX|HACK)\b": "unfinished work; finish it or file it",
    r"GTEST_SKIP|\bDISABLED_|pytest\.mark\.(skip|xfail)|pytest\.skip\(|importorskip": "a test that does not run",
}
COMPUTING = {  # only in the rooms whose results are promised
    r"std::atomic(_ref)?<\s*(float|double)": "float atomic: the order of addition would depend on timing",
    r"atomicAdd\s*\(\s*\(?\s*(float|double|__half)|red\.[\w.]*add[\w.]*\.f(16|32|64)": "float atomic",
    r"std::(exp|log|exp2|log2|expm1|log1p|pow)[fl]?\s*\(|\b__(expf|logf|powf|fdividef)\s*\(": "library exp or log",
    r"std::(reduce|transform_reduce|inner_product|accumulate)\b": "a sum whose order the library chooses",
    r"#\s*pragma\s+(omp|STDC\s+FP_CONTRACT\s+ON|GCC\s+optimize)": "pragma that may reorder arithmetic",
    r"__attribute__\s*\(\(\s*optimize": "attribute that may reorder arithmetic",
}
ROOMS = ("src/order/", "src/cpu/", "src/cuda/", "src/core/", "include/")


def problems(root: Path, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        name = path.as_posix()
        if path.suffix not in CODE or name in EXEMPT or name.startswith("tests/golden/"):
            continue
        rules = dict(ANYWHERE)
        if name.startswith(ROOMS):
            rules |= COMPUTING
        try:
            text = (root / path).read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for pattern, why in rules.items():
                match = re.search(pattern, line)
                if match:
                    found.append(f"{path}:{number}: {match.group(0)}: {why}")
    return found
