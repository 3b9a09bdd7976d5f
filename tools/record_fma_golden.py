"""Writes tests/golden/fma.json: dot products of fma.v1 and fma64.v1 by exact rational arithmetic.

Nothing here shares code with the library: every fused multiply-add is a fraction that is rounded once.
Run from the root of the repository; the result must not change unless the contract does.
"""

import json
import struct
from fractions import Fraction
from pathlib import Path

SEGMENT = 8192
SHAPES = [
    (1, 1, 1),
    (2, 3, 15),
    (2, 3, 16),
    (3, 2, 1000),
    (1, 2, 8191),
    (1, 2, 8192),
    (1, 2, 8193),
    (1, 2, 20000),
]
FORMATS = {"fma.v1": (24, -149, "<f", 4), "fma64.v1": (53, -1074, "<d", 8)}


def splitmix64(seed):
    """Yields the generator of tests/cpp/rng.h."""
    state = seed
    mask = (1 << 64) - 1
    while True:
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        yield z ^ (z >> 31)


def element(bits):
    """The value the test makes of one word: 24 bits and an exponent, exact in binary32."""
    significand = (bits & 0xFFFFFF) - 0x800000
    exponent = ((bits >> 56) & 15) - 12 - 23
    return Fraction(significand) * Fraction(2) ** exponent


def round_to(value, precision, lowest):
    """Nearest even multiple of the format's spacing at `value`; the cases stay far from overflow."""
    if value == 0:
        return value
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    spacing = Fraction(2) ** max(exponent - precision + 1, lowest)
    return round(value / spacing) * spacing  # Fraction rounds halves to even


def dot(a, b, precision, lowest):
    total = Fraction(0)
    for begin in range(0, len(a), SEGMENT):
        acc = Fraction(0)
        for x, y in zip(a[begin : begin + SEGMENT], b[begin : begin + SEGMENT], strict=True):
            acc = round_to(x * y + acc, precision, lowest)
        total = round_to(total + acc, precision, lowest)
    return total


def main():
    cases = []
    for contract, (precision, lowest, code, size) in FORMATS.items():
        for seed, (rows, columns, depth) in enumerate(SHAPES):
            words = splitmix64(seed)
            a = [element(next(words)) for _ in range(rows * depth)]
            b = [element(next(words)) for _ in range(depth * columns)]
            out = []
            for i in range(rows):
                for j in range(columns):
                    value = dot(a[i * depth : (i + 1) * depth], b[j::columns], precision, lowest)
                    packed = struct.pack(code, float(value))
                    out.append(packed[::-1].hex())
                    assert len(packed) == size
            cases.append(
                {
                    "contract": contract,
                    "seed": seed,
                    "rows": rows,
                    "columns": columns,
                    "depth": depth,
                    "out": out,
                }
            )
    path = Path("tests/golden/fma.json")
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"generator": "tools/record_fma_golden.py", "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main()
