"""The leaves of every higher derivative: row_expand, row_sum and probability.

Each is an autograd Function whose backward and jvp are made of these three and of elementwise torch operators
(which round once and see no other row), so derivatives of every order exist and every sum over a row has the
contract's order (docs/contract.md, section 1).
"""

import torch

from ._fold import flat_rows, fold, shaped
from ._torch_private import outer_levels_recorded, without_tangent

_row_sum = torch.ops.samebits.row_sum.default
_probability = torch.ops.samebits.probability.default


class RowSum(torch.autograd.Function):
    """``[..., n]`` to ``[...]``: the sum over the last axis in the contract's order."""

    @staticmethod
    def forward(values):
        """One read of the values."""
        leading = values.dim() - 1
        return shaped(_row_sum(flat_rows(values, leading, 1)), values.shape[:-1])

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Only the length is needed."""
        ctx.columns = inputs[0].shape[-1]

    @staticmethod
    def backward(ctx, grad):
        """The adjoint repeats."""
        return row_expand(grad, ctx.columns)

    @staticmethod
    def jvp(ctx, tangent):
        """A sum is linear."""
        with outer_levels_recorded():
            return row_sum(tangent)

    @staticmethod
    def vmap(info, in_dims, values):
        """The mapped axis is one more leading axis."""
        return row_sum(fold(info.batch_size, in_dims[0], values)), 0


class RowExpand(torch.autograd.Function):
    """``[...]`` to ``[..., n]``: one number per row, repeated. No memory of its own is written twice."""

    @staticmethod
    def forward(values, columns):
        """A dense copy would cost a row; stride 0 costs nothing, and `clone` of a scalar per row little."""
        return values.clone().unsqueeze(-1).expand(*values.shape, columns)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Only the length is needed."""
        ctx.columns = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        """The adjoint sums, in the contract's order."""
        return row_sum(grad), None

    @staticmethod
    def jvp(ctx, tangent, _):
        """Repeating is linear."""
        with outer_levels_recorded():
            return row_expand(tangent, ctx.columns)

    @staticmethod
    def vmap(info, in_dims, values, columns):
        """The mapped axis is one more leading axis."""
        return row_expand(fold(info.batch_size, in_dims[0], values), columns), 0


class Probability(torch.autograd.Function):
    """``p`` of the scaled logits, from the statistics of the forward pass; +0 in rows that take no part.

    `inverse` is 1 / temperature, a number or ``[..., 1]``; `options` ends the operator's arguments.
    """

    @staticmethod
    def forward(logits, targets, row_max, row_total, row_temperature, inverse, options):
        """One read and one write of the logits."""
        leading = targets.dim()
        statistics = (flat_rows(s, s.dim()) for s in (row_max, row_total))
        arguments = (flat_rows(targets, leading), *statistics, flat_rows(row_temperature, leading), None)
        return shaped(_probability(flat_rows(logits, leading, 1), *arguments, *options), logits.shape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The derivative needs p alone: saved as an output, it carries its own derivative."""
        inverse = inputs[5]
        ctx.inverse = None if isinstance(inverse, torch.Tensor) else inverse
        saved = (output, inverse) if ctx.inverse is None else (output,)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)

    @staticmethod
    def backward(ctx, grad):
        """J is symmetric."""
        p, *inverse = ctx.saved_tensors
        to_logits = scaled(softmax_jacobian(p, grad), *(inverse or (ctx.inverse,)))
        return to_logits, None, None, None, None, None, None

    @staticmethod
    def jvp(ctx, tangent, *_):
        """J v = p * (v - sum p v), with v the tangent of the scaled logits."""
        p, *inverse = (without_tangent(t) for t in ctx.saved_tensors)
        with outer_levels_recorded():
            return scaled(softmax_jacobian(p, tangent), *(inverse or (ctx.inverse,)))

    @staticmethod
    def vmap(info, in_dims, logits, targets, row_max, row_total, row_temperature, inverse, options):
        """The mapped axis is one more leading axis."""
        tensors = (logits, targets, row_max, row_total, row_temperature)
        folded = [fold(info.batch_size, d, t) for d, t in zip(in_dims[:5], tensors, strict=True)]
        folded[2:4] = (s.contiguous() for s in folded[2:4])
        if isinstance(inverse, torch.Tensor):
            inverse = fold(info.batch_size, in_dims[5], inverse)
        return Probability.apply(*folded, inverse, options), 0


def row_sum(values: torch.Tensor) -> torch.Tensor:
    """Sum over the last axis, differentiable."""
    return RowSum.apply(values)


def row_expand(values: torch.Tensor, columns: int) -> torch.Tensor:
    """One number per row repeated over `columns`, differentiable."""
    return RowExpand.apply(values, columns)


def scaled(values: torch.Tensor, inverse) -> torch.Tensor:
    """`values` times 1 / temperature; nothing to do where that is 1."""
    return values if isinstance(inverse, float) and inverse == 1.0 else values * inverse


def softmax_jacobian(p: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
    """``p * (v - sum p v)`` row by row."""
    return p * (direction - row_expand(row_sum(p * direction), p.shape[-1]))
