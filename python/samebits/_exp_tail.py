"""exp, exp - 1 and exp - 1 - x, elementwise, with bits of their own (docs/contract.md, `exp.v1`).

torch's exp has other bits on a GPU than on a CPU: of 1,000,000 numbers in [-20, 20] 302,677 results differ in
fp32 and 83,127 in fp64 (an H200 and the CPU beside it, torch 2.11; docs/grpo.md). This one is made of torch
operators that round once each, in binary64 without fma, so that any device agrees; to torch.compile it is an
operator like the native ones.
"""

import torch
from torch import Tensor

from . import _torch_private

_LOG2_E = float.fromhex("0x1.71547652b82fep+0")
# log 2 in two words, those of log64: n times the first is exact.
_LN2_HIGH = float.fromhex("0x1.62e42fefa4p-1")
_LN2_LOW = float.fromhex("-0x1.8432a1b0e2634p-43")
# (exp(r) - 1 - r) / r^2, highest power first: those of exp64.
_COEFFICIENTS = tuple(
    float.fromhex(c)
    for c in (
        "0x1.ad92c7db8ea48p-26", "0x1.28adf7a188bf3p-22", "0x1.71df18fbc77b8p-19", "0x1.a0199963c9d98p-16",
        "0x1.a01a012fec2f6p-13", "0x1.6c16c18475a18p-10", "0x1.1111111126b37p-7", "0x1.55555555506cp-5",
        "0x1.55555555554fep-3", "0x1.000000000000ap-1",
    )
)  # fmt: skip
_REACH = 800.0  # beyond it every result is settled: the exponential is 0 or infinite
_NAN = {torch.float32: (torch.int32, 0x7FFFFFFF), torch.float64: (torch.int64, 0x7FF8000000000000)}


def _power_of_two(n: Tensor) -> Tensor:
    return ((n + 1023) << 52).view(torch.float64)


torch.library.define("samebits::exp_tail", "(Tensor x, int terms) -> Tensor")


@torch.library.impl("samebits::exp_tail", "default")
def _(x, terms):
    wide = x.contiguous().double()
    nan = torch.isnan(wide)
    below = torch.where(nan, 0.0, wide).clamp(max=_REACH)
    d = below.clamp(min=-_REACH)
    n = torch.round(d * _LOG2_E)
    r = (d - n * _LN2_HIGH) - n * _LN2_LOW
    q = torch.full_like(r, _COEFFICIENTS[0])
    for coefficient in _COEFFICIENTS[1:]:
        q = q * r + coefficient
    square = (r * r) * q  # exp(r) is 1 + r + square
    h = 1.0 + r
    p = h + (square + (r - (h - 1.0)))
    exponent = n.long()
    half = exponent >> 1  # in two steps, so that the last one alone rounds, where the result is subnormal
    result = (p * _power_of_two(half)) * _power_of_two(exponent - half)
    if terms == 1:
        result = torch.where(n == 0, r + square, result - 1.0)
    elif terms == 2:
        result = torch.where(n == 0, square, (result - 1.0) - below)
    bits, pattern = _NAN[x.dtype]
    return torch.where(nan, pattern, result.to(x.dtype).view(bits)).view(x.dtype)


@torch.library.register_fake("samebits::exp_tail")
def _(x, terms):
    return x.new_empty(x.shape)


class ExpTail(torch.autograd.Function):
    """exp(x) without the first `terms` (0, 1 or 2) of its Taylor series; float32 or float64."""

    @staticmethod
    def forward(x, terms):
        """Elementwise."""
        return torch.ops.samebits.exp_tail.default(x, terms)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The argument: each derivative has one term less."""
        x, ctx.terms = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad):
        """One rounding."""
        return grad * exp_tail(ctx.saved_tensors[0], max(ctx.terms - 1, 0)), None


class TransformableExpTail(ExpTail):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The argument, for forward mode too."""
        ExpTail.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[0])

    @staticmethod
    def jvp(ctx, tangent, _):
        """The same product."""
        x = ctx.saved_tensors[0]
        with _torch_private.outer_levels_recorded():
            x = _torch_private.without_tangent(x)
            return tangent * exp_tail(x, max(ctx.terms - 1, 0))

    @staticmethod
    def vmap(info, in_dims, x, terms):
        """Elementwise."""
        return TransformableExpTail.apply(x, terms), in_dims[0]


def exp_tail(x: Tensor, terms: int) -> Tensor:
    """ExpTail, recorded where a derivative may be asked for."""
    plain = torch.compiler.is_compiling() or not _torch_private.recording()
    return (ExpTail if plain else TransformableExpTail).apply(x, terms)
