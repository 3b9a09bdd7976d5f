"""Autograd of the matrix product."""

import torch
from torch import Tensor

from . import _torch_private
from ._fold import fold

_matmul = torch.ops.samebits.matmul.default


class Product(torch.autograd.Function):
    """``a @ b + bias`` of two matrices; its backward is made of products again."""

    @staticmethod
    def forward(a, b, bias, out_dtype, contract, backend):
        """One product."""
        return _matmul(a, b, out_dtype, contract, backend, bias)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The operands; the bias counts only as present or not."""
        a, b, ctx.bias, ctx.out_dtype, *ctx.rest = inputs
        ctx.bias = None if ctx.bias is None else ctx.bias.dtype
        ctx.save_for_backward(a, b)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        """The upstream, rounded once to the operands' dtype, times the other operand."""
        if grad is None:
            return (None,) * 6
        _torch_private.refuse_batched_graph(grad)
        a, b = ctx.saved_tensors
        to_a, to_b, to_bias = ctx.needs_input_grad[:3]
        upstream = grad.to(a.dtype)
        grad_a = product(upstream, b.t(), None, None, *ctx.rest) if to_a else None
        grad_b = product(a.t(), upstream, None, None, *ctx.rest) if to_b else None
        grad_bias = None
        if ctx.bias is not None and to_bias:
            ones = torch.ones_like(upstream[:, :1]).t()
            grad_bias = product(ones, upstream, None, None, *ctx.rest).squeeze(0)
        return grad_a, grad_b, grad_bias, None, None, None


class TransformableProduct(Product):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What Product saves, for forward mode too."""
        Product.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:2])

    @staticmethod
    def jvp(ctx, to_a, to_b, to_bias, *_):
        """Both operands move, and the bias."""
        a, b = (_torch_private.without_tangent(t) for t in ctx.saved_tensors)
        with _torch_private.outer_levels_recorded():
            parts = []
            if to_a is not None:
                parts.append(product(to_a, b, to_bias, ctx.out_dtype, *ctx.rest))
            if to_b is not None:
                parts.append(product(a, to_b, None if parts else to_bias, ctx.out_dtype, *ctx.rest))
            if not parts:
                return to_bias.expand(a.shape[0], -1).to(ctx.out_dtype or a.dtype)
            return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    @staticmethod
    def vmap(info, in_dims, a, b, bias, *rest):
        """With one right operand for all, the samples' rows are rows of one product; else a product each."""
        size = info.batch_size
        if in_dims[1] is None and in_dims[2] is None:
            rows = a.movedim(in_dims[0], 0)
            return product(rows.flatten(0, 1), b, bias, *rest).unflatten(0, rows.shape[:2]), 0
        operands = [fold(size, d, t) for d, t in zip(in_dims, (a, b, bias), strict=False)]
        if size == 0:
            shape = (0, operands[0].shape[1], operands[1].shape[2])
            return a.new_empty(shape, dtype=rest[0] or a.dtype), 0
        each = zip(*([None] * size if o is None else o.unbind() for o in operands), strict=True)
        return torch.stack([product(*sample, *rest) for sample in each]), 0


def product(a, b, bias, out_dtype, contract, backend) -> Tensor:
    """``a @ b + bias`` of matrices, recorded where a derivative may be asked for."""
    arguments = (a, b, bias, out_dtype, contract, backend)
    live = _torch_private.differentiating(a, b, bias)
    if _torch_private.transforms_active() or (live and not torch.compiler.is_compiling()):
        return TransformableProduct.apply(*arguments)
    return Product.apply(*arguments) if live else _matmul(a, b, out_dtype, contract, backend, bias)
