"""The integer generator of the golden vectors (tests/cpp/rng.h), in torch."""

import ctypes

import torch
from torch import Tensor

from samebits.report.context import DTYPES

_STEP = 0x9E3779B97F4A7C15
_WORD = 1 << 64
_TERMS = 12  # uniforms in a normal


class Integers:
    """SplitMix64: word i depends on the seed and i alone, so that many are made at once."""

    def __init__(self, seed: int):
        self.seed, self.taken = seed, 0

    def words(self, count: int) -> Tensor:
        """The next words, as the int64 with the same bits."""
        at = torch.arange(self.taken + 1, self.taken + 1 + count)
        self.taken += count
        z = at * _signed(_STEP) + _signed(self.seed)  # int64 wraps as uint64 does
        z = (z ^ _shifted(z, 30)) * _signed(0xBF58476D1CE4E5B9)
        z = (z ^ _shifted(z, 27)) * _signed(0x94D049BB133111EB)
        return z ^ _shifted(z, 31)

    def below(self, bound: int, count: int = 1) -> list[int]:
        """Integers in ``[0, bound)``."""
        return [word % _WORD % bound for word in self.words(count).tolist()]

    def normal(self, count: int) -> Tensor:
        """float64: sums of twelve uniforms, near enough to a normal and exact on every machine."""
        uniforms = _shifted(self.words(count * _TERMS), 11).double().view(count, _TERMS) * 2.0**-53
        total = torch.full((count,), -6.0, dtype=torch.float64)
        for term in uniforms.unbind(1):
            total = total + term
        return total


def _signed(word: int) -> int:
    word %= _WORD
    return word - _WORD if word >= _WORD // 2 else word


def _shifted(words: Tensor, by: int) -> Tensor:
    """Logical shift to the right."""
    return (words >> by) & ((1 << (64 - by)) - 1)


def rounded(values: Tensor, dtype: torch.dtype) -> Tensor:
    """float64 to `dtype` with one rounding; torch's own cast to 16 bits rounds to float32 first."""
    if dtype in (torch.float64, torch.float32):
        return values.to(dtype)
    near = values.float()
    back = near.double()
    bits = near.view(torch.int32)
    # Rounded to odd the float32 still tells on which side of a tie the value was.
    odd = torch.where(back.abs() > values.abs(), bits - 1, bits + 1)
    kept = (back == values) | values.isnan() | (bits & 1 == 1)
    return torch.where(kept, bits, odd).view(torch.float32).to(dtype)


def fnv1a(data: bytes) -> str:
    """FNV-1a of 64 bits, as the golden files write it."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % _WORD
    return f"{value:016x}"


def raw(values: Tensor) -> bytes:
    """The bytes of a tensor, little-endian."""
    flat = values.detach().cpu().contiguous()
    return ctypes.string_at(flat.data_ptr(), flat.nbytes)


def hex_words(values: Tensor) -> list[str]:
    """Each element's bits in hex."""
    size = values.element_size()
    data = raw(values)
    return [data[at : at + size][::-1].hex() for at in range(0, len(data), size)]


# The numbers that C++ gives dtypes, in the seeds of the golden inputs.
NUMBERED = {name: DTYPES[name] for name in ("fp32", "fp64", "fp16", "bf16")}
LONG_NAMES = {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16"}
