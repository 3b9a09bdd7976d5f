"""Judges of sum.v1 and exp.v1 in plain Python: rational numbers, and binary64 without fma."""

import math
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import torch

# Stored bits of the significand, log2 of the smallest number, log2 of the first number too large.
_FORMATS = {torch.float32: (23, -149, 128), torch.float64: (52, -1074, 1024)}


def rounded(value: Fraction, dtype: torch.dtype) -> float:
    """The number of `dtype` nearest to `value`, ties to even; an infinity beyond the largest."""
    stored, smallest, too_large = _FORMATS[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - stored, smallest)
    nearest = round(size / unit) * unit  # of a Fraction: ties to even
    result = float("inf") if nearest >= Fraction(2) ** too_large else float(nearest)
    return result if value > 0 else -result


def exact(values) -> Fraction:
    """The sum of finite numbers."""
    return sum((Fraction(v) for v in values), Fraction(0))


def sum_of(values: list[float], dtype: torch.dtype) -> float:
    """What masked_sum of these finite values is, of result type `dtype`."""
    return rounded(exact(values), dtype)


def mean_of(values: list[float], dtype: torch.dtype) -> float:
    """What masked_mean is: the sum rounded to binary64, divided there, rounded to `dtype`."""
    quotient = rounded(Fraction(rounded(exact(values), torch.float64)) / len(values), torch.float64)
    return rounded(Fraction(quotient), dtype)


def integers(count: int, seed: int) -> list[int]:
    """Knuth's 64-bit linear congruential generator: golden inputs that no library can change."""
    state, found = seed, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        found.append(state >> 32)
    return found


_PAGE = (Path(__file__).resolve().parents[2] / "docs/contract.md").read_text()


@cache
def constant(name: str, of: str) -> float:
    """A binary64 constant of the contract page."""
    (found,) = re.findall(rf"^\| `{re.escape(name)}` \| `([^`]*)` \| {of}", _PAGE, re.M)
    return float.fromhex(found)


def exp_tail(x: float, terms: int) -> float:
    """`exp.v1` of the contract page in binary64, line by line, for |x| < 700; Python has no fma either."""
    n = round(x * constant("L", "exp64"))
    r = (x - n * constant("ln2 high", "log64")) - n * constant("ln2 low", "log64")
    q = constant("c0", "exp64")
    for i in range(1, 10):
        q = q * r + constant(f"c{i}", "exp64")
    square = (r * r) * q
    h = 1.0 + r
    whole = math.ldexp(h + (square + (r - (h - 1.0))), n)
    if terms == 0:
        return whole
    if terms == 1:
        return r + square if n == 0 else whole - 1.0
    return square if n == 0 else (whole - 1.0) - x
