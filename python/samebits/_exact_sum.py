"""The operators behind masked_sum and masked_mean: exact sums, rounded once (docs/contract.md, `sum.v1`).

A sum is an integer number of units (2^-149 for float32, 2^-1074 for float64). Each value is cut into 32-bit
limbs that are added as 64-bit integers, in any order, and the integer that comes out is rounded once. Integer
operators of torch only: the same bits on every device, and no wait for one.

To torch.compile these are operators like those of the native library: it does not look inside.
"""

from typing import NamedTuple

import torch
from torch import Tensor

MOST_VALUES = 1 << 30  # of a call: as many limbs below 2^32 stay within 64 bits
_MASK = 0xFFFFFFFF
_LANES = 64  # copies of the limbs, so that a GPU's additions do not queue at one address
_STEP_CPU, _STEP_CUDA = (
    1 << 15,
    1 << 22,
)  # values at a time: a cache, and 500 MB or so of intermediate results


class _Format(NamedTuple):
    bits: torch.dtype
    fraction: int  # bits of the significand that are stored
    exponents: int  # the biased exponent of infinities and NaN
    bias: int
    unit: int  # log2 of the smallest positive number
    limbs: int  # of a sum: the largest value, MOST_VALUES times, and a sign
    nan: int  # the pattern of every NaN written


_FORMATS = {
    torch.float32: _Format(torch.int32, 23, 0xFF, 127, -149, 10, 0x7FFFFFFF),
    torch.float64: _Format(torch.int64, 52, 0x7FF, 1023, -1074, 67, 0x7FF8000000000000),
}


def exact_sums(
    values: Tensor, included: Tensor | None, segments: Tensor | None, count: int, out: torch.dtype
):
    """``[count]`` of dtype `out`: of each segment the exact sum of the included values, rounded once.

    `values` float32 or float64, `segments` int64 in [0, count), both of one shape; None: all of them, and 0.
    """
    source = _FORMATS[values.dtype]
    columns = source.limbs + 5  # counts of NaN, +inf and -inf; two that only ever get zeros
    lanes = max(1, min(_LANES, 4096 // (count + 1))) if values.is_cuda else 1
    limbs = torch.zeros(lanes * (count + 1) * columns, dtype=torch.int64, device=values.device)
    step = _STEP_CUDA if values.is_cuda else _STEP_CPU
    values, included, segments = (None if t is None else t.reshape(-1) for t in (values, included, segments))
    for start in range(0, values.numel(), step):
        taken = slice(start, start + step)
        column, parts = _parts(values[taken], source)
        row = torch.zeros_like(column) if segments is None else segments[taken]
        if included is not None:
            row = torch.where(included[taken], row, count)  # one row more, for what takes no part
        if lanes > 1:
            row = row + torch.arange(row.numel(), device=row.device) % lanes * (count + 1)
        at = row * columns + column
        for higher, part in enumerate(parts):
            limbs.index_add_(0, at + higher, part)
    limbs = limbs.view(lanes, count + 1, columns).sum(0)[:count]
    return _rounded(limbs, source, _FORMATS[out]).view(out)


def _parts(values: Tensor, form: _Format):
    """The column of each value's lowest limb, and its limbs from there on, signed.

    An infinity or NaN counts 1 in a column of its own.
    """
    bits = values.contiguous().view(form.bits).to(torch.int64)
    fraction = bits & ((1 << form.fraction) - 1)
    exponent = (bits >> form.fraction) & form.exponents
    special = exponent == form.exponents
    negative = bits < 0
    significand = torch.where(exponent > 0, fraction + (1 << form.fraction), fraction)
    position = torch.clamp(exponent - 1, min=0)  # of its last bit, in units
    shift = position & 31
    low = (significand & _MASK) << shift
    high = ((significand >> 32) << shift) + (low >> 32)
    parts = [low & _MASK, high & _MASK]
    if form.fraction > 32:
        parts.append(high >> 32)
    kind = torch.where(fraction != 0, 0, torch.where(negative, 2, 1))  # NaN, +inf, -inf
    column = torch.where(special, form.limbs + kind, position >> 5)
    signed = (torch.where(negative, -part, part) for part in parts)
    first, *rest = (torch.where(special, 0, part) for part in signed)
    return column, [torch.where(special, 1, first), *rest]


def _rounded(limbs: Tensor, source: _Format, target: _Format) -> Tensor:
    """The patterns of the numbers nearest to ``[..., columns]`` limbs, ties to even."""
    magnitude, negative = _magnitude(limbs, source.limbs)
    place = torch.arange(magnitude.shape[-1], device=limbs.device)
    top = torch.where(magnitude != 0, place, 2).amax(-1, keepdim=True)
    high, middle, low = (magnitude.gather(-1, top - i).squeeze(-1) for i in range(3))
    inexact = ((magnitude != 0) & (place < top - 2)).any(-1)
    length = torch.where(
        high == 0, 1, (high.double().view(torch.int64) >> 52) - 1022
    )  # bits of `high`, exact
    # The 62 leading bits, the last one set where anything is lost, and a first one that is set.
    shift = 32 - length
    tail = ((middle & 3) << 32) | low
    leading = (((high << 30) | (middle >> 2)) << shift) | (tail >> (34 - shift))
    lost = (torch.ones_like(shift) << (34 - shift)) - 1
    inexact = inexact | ((tail & lost) != 0)
    leading = leading | inexact.to(torch.int64)
    drop = 61 - target.fraction
    kept = (leading + ((1 << (drop - 1)) - 1) + ((leading >> drop) & 1)) >> drop
    exponent = 32 * (top.squeeze(-1) - 2) + length - 1 + source.unit + target.bias
    normal = (torch.clamp(exponent, min=1) - 1 << target.fraction) + kept
    subnormal = kept >> torch.clamp(1 - exponent, 0, 62)  # exact: a sum is a multiple of the unit
    infinity = target.exponents << target.fraction
    bits = torch.where(exponent >= 1, normal, subnormal).clamp(max=infinity)
    nans, plus, minus = (limbs[..., source.limbs + i] > 0 for i in range(3))
    bits = torch.where(plus | minus, infinity, bits)
    negative = torch.where(plus | minus, minus, negative)
    sign_bit = -(1 << (31 if target.bits == torch.int32 else 63))
    bits = bits + torch.where(negative, sign_bit, 0)
    return torch.where(nans | (plus & minus), target.nan, bits).to(target.bits)


def _magnitude(limbs: Tensor, count: int):
    """The absolute value in digits of 32 bits, two zeros below them; and whether the sum is negative."""
    carry = torch.zeros_like(limbs[..., 0])
    digits = []
    for i in range(count):
        limb = limbs[..., i] + carry
        digits.append(limb & _MASK)
        carry = limb >> 32
    digits = torch.stack(digits, -1)
    negative = carry < 0
    # The negative of a two's complement: the lowest digit that is not 0 is subtracted, those above inverted.
    place = torch.arange(count, device=limbs.device)
    lowest = torch.where(digits != 0, place, count).amin(-1, keepdim=True)
    inverted = torch.where(place > lowest, _MASK - digits, (_MASK + 1 - digits) & _MASK)
    magnitude = torch.where(negative.unsqueeze(-1), inverted, digits)
    return torch.nn.functional.pad(magnitude, (2, 0)), negative


def _counts(like: Tensor, included: Tensor | None, segments: Tensor | None, count: int) -> Tensor:
    """``[count]`` int64: how many values of each segment are included."""
    if segments is None and included is None:
        return torch.full((1,), like.numel(), dtype=torch.int64, device=like.device)
    if segments is None:
        return included.sum().view(1)
    row = segments.reshape(-1)
    if included is not None:
        row = torch.where(included.reshape(-1), row, count)
    counts = torch.zeros(count + 1, dtype=torch.int64, device=like.device)
    return counts.index_add_(0, row, torch.ones_like(row))[:count]


_ARGUMENTS = "Tensor? included, Tensor? segments, SymInt count, bool mean"
torch.library.define("samebits::masked_reduce", f"(Tensor values, {_ARGUMENTS}, bool empty_is_nan) -> Tensor")
torch.library.define("samebits::masked_spread", f"(Tensor grad, {_ARGUMENTS}, SymInt[] shape) -> Tensor")


@torch.library.impl("samebits::masked_reduce", "default")
def _(values, included, segments, count, mean, empty_is_nan):
    if values.numel() > MOST_VALUES:
        raise ValueError(f"values: has {values.numel()} elements; may have at most {MOST_VALUES}")
    if not mean:
        return exact_sums(values, included, segments, count, values.dtype)
    number = _counts(values, included, segments, count)
    total = exact_sums(values, included, segments, count, torch.float64)
    quotient = (total / number.clamp(min=1).double()).to(values.dtype)
    nans = torch.isnan(quotient)
    if empty_is_nan:
        nans = nans | (number == 0)
    form = _FORMATS[values.dtype]
    return torch.where(nans, form.nan, quotient.view(form.bits)).view(values.dtype)


@torch.library.impl("samebits::masked_spread", "default")
def _(grad, included, segments, count, mean, shape):
    if mean:
        number = _counts(grad.new_empty(()).expand(shape), included, segments, count)
        grad = (grad.double() / number.clamp(min=1).double()).to(grad.dtype)
    spread = grad.expand(shape) if segments is None else grad[segments]
    return spread.clone() if included is None else torch.where(included, spread, 0.0)


@torch.library.register_fake("samebits::masked_reduce")
def _(values, included, segments, count, mean, empty_is_nan):
    return values.new_empty((count,))


@torch.library.register_fake("samebits::masked_spread")
def _(grad, included, segments, count, mean, shape):
    return grad.new_empty(shape)
