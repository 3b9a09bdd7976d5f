"""The calls that evidence is taken from: every dtype, short and long rows, few and many."""

from .inputs import Case

DTYPES = ("float32", "bfloat16", "float16", "float64")
# rows, vocabulary, options. Rows of one dtype add up to more than 100,000.
_SHAPES = (
    (65536, 257, {}),
    (32768, 1000, {"temperature": 0.7}),
    (8192, 1024, {"vocab_size": 1001, "ignore_index": 3}),
    (1024, 5003, {}),
    (128, 32000, {"temperature": 1.3}),
    (64, 50257, {}),
    (64, 131072, {}),
    (7, 151936, {}),
    (1, 131072, {}),
)


def cases(quick: bool = False) -> list[Case]:
    """All of them; `quick` keeps one row in 64."""
    made = []
    for number, dtype in enumerate(DTYPES):
        for index, (rows, vocab, options) in enumerate(_SHAPES):
            rows = max(1, rows // 64) if quick else rows
            made.append(
                Case(f"{dtype}_{rows}x{vocab}", 100 * number + index, rows, vocab, dtype, True, options)
            )
    wide = {"precision": "fp64"}
    made.append(Case("bfloat16_in_fp64", 900, 64 if quick else 4096, 1000, "bfloat16", True, wide))
    return made
