"""Autograd of the embedding: lookup and gradient are each other's adjoint, both linear.

An id that is out of range or `padding_idx` takes no part in the gradient, and so its row has a tangent of +0.
"""

import torch

from . import _checks, _torch_private
from ._errors import NotDifferentiableError, raise_clearly
from ._fold import flat_rows, fold, shaped

_embedding = torch.ops.samebits.embedding.default
_backward = torch.ops.samebits.embedding_backward.default
_backward_into = torch.ops.samebits.embedding_backward_into.default


def _rows(ids, weight, *rest):
    """Rows of `weight`, for ids of any shape."""
    return shaped(_embedding(flat_rows(ids, ids.dim()), weight, *rest), (*ids.shape, weight.shape[1]))


class Embedding(torch.autograd.Function):
    """``weight[ids]``; what `options` holds ends the operator's arguments."""

    @staticmethod
    def forward(weight, ids, accumulator, padding_idx, on_invalid, backend):
        """Copy rows."""
        return _rows(ids, weight, padding_idx, on_invalid, backend)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The ids; of the weight its number of rows."""
        weight, ids, ctx.accumulator, ctx.padding_idx, _, ctx.backend = inputs
        ctx.vocab = weight.shape[0]
        ctx.save_for_backward(ids)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        """The sum over the positions of each id."""
        nothing = (None,) * 6
        if grad is None or not ctx.needs_input_grad[0]:
            return nothing
        _torch_private.refuse_batched_graph(grad)
        (ids,) = ctx.saved_tensors
        if ctx.accumulator is None:
            return embedding_gradient(ids, grad, ctx.vocab, ctx.padding_idx, ctx.backend), *nothing[1:]
        if _torch_private.recording():
            raise NotDifferentiableError(
                "grad_accumulator: a gradient added to a buffer has no derivative of its own; call backward "
                "without create_graph, or leave the accumulator out"
            )
        _checks.accumulator_memory("grad_accumulator", ctx.accumulator, (ctx.vocab, grad.shape[-1]), grad)
        leading = ids.dim()
        flat = flat_rows(ids, leading), flat_rows(grad, leading, 1)
        try:
            _backward_into(*flat, ctx.accumulator, ctx.padding_idx, ctx.backend)
        except RuntimeError as error:
            raise_clearly(error)
        torch.autograd.graph.increment_version(ctx.accumulator)
        return nothing


class TransformableEmbedding(Embedding):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What Embedding saves, for forward mode too."""
        Embedding.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def jvp(ctx, tangent, *_):
        """Rows of the tangent."""
        ids = _torch_private.without_tangent(ctx.saved_tensors[0])
        with _torch_private.outer_levels_recorded():
            return tangent_rows(ids, tangent, ctx.padding_idx, ctx.backend)

    @staticmethod
    def vmap(info, in_dims, weight, ids, *rest):
        """One lookup for all samples that share a weight, else one each."""
        size = info.batch_size
        if in_dims[0] is None:
            return TransformableEmbedding.apply(weight, fold(size, in_dims[1], ids), *rest), 0
        samples = zip(fold(size, in_dims[0], weight), fold(size, in_dims[1], ids), strict=True)
        rows = [TransformableEmbedding.apply(*sample, *rest) for sample in samples]
        if not rows:
            shape = ids.shape if in_dims[1] is None else ids.movedim(in_dims[1], 0).shape[1:]
            columns = weight.movedim(in_dims[0], 0).shape[2]
            return weight.new_empty((0, *shape, columns)), 0
        return torch.stack(rows), 0


class EmbeddingGradient(torch.autograd.Function):
    """``[vocab, H]``: the sum of `grad` over the positions of each id, in the contract's order."""

    @staticmethod
    def forward(grad, ids, vocab, padding_idx, backend):
        """One sort of the ids and one read of the upstream."""
        leading = ids.dim()
        return _backward(flat_rows(ids, leading), flat_rows(grad, leading, 1), vocab, padding_idx, backend)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The ids."""
        _, ids, ctx.vocab, ctx.padding_idx, ctx.backend = inputs
        ctx.save_for_backward(ids)

    @staticmethod
    def backward(ctx, grad):
        """The adjoint looks up."""
        return tangent_rows(ctx.saved_tensors[0], grad, ctx.padding_idx, ctx.backend), *(None,) * 4


class TransformableEmbeddingGradient(EmbeddingGradient):
    """The same outside torch.compile."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """The same for forward mode too."""
        EmbeddingGradient.setup_context(ctx, inputs, output)
        ctx.save_for_forward(inputs[1])

    @staticmethod
    def jvp(ctx, tangent, *_):
        """A sum is linear."""
        ids = _torch_private.without_tangent(ctx.saved_tensors[0])
        with _torch_private.outer_levels_recorded():
            return embedding_gradient(ids, tangent, ctx.vocab, ctx.padding_idx, ctx.backend)

    @staticmethod
    def vmap(info, in_dims, grad, ids, vocab, *rest):
        """One call per sample: each has a gradient to itself."""
        folded = [fold(info.batch_size, dim, t) for dim, t in zip(in_dims, (grad, ids), strict=False)]
        samples = zip(*folded, strict=True)
        each = [TransformableEmbeddingGradient.apply(*sample, vocab, *rest) for sample in samples]
        return torch.stack(each) if each else grad.new_empty((0, vocab, folded[0].shape[-1])), 0


def _node(plain, transformable, tensor):
    """The Function that fits the moment; None where nothing is to be recorded."""
    live = _torch_private.differentiating(tensor)
    if _torch_private.transforms_active() or (live and not torch.compiler.is_compiling()):
        return transformable
    return plain if live else None


def lookup(ids, weight, accumulator, padding_idx, on_invalid, backend):
    """``weight[ids]``, recorded where a derivative may be asked for."""
    node = _node(Embedding, TransformableEmbedding, weight)
    if node is None:
        return _rows(ids, weight, padding_idx, on_invalid, backend)
    return node.apply(weight, ids, accumulator, padding_idx, on_invalid, backend)


@_checks.uncompiled_accumulator
def accumulating_lookup(*inputs):
    """The same with an accumulator."""
    return lookup(*inputs)


def embedding_gradient(ids, grad, vocab, padding_idx, backend):
    """The gradient, recorded where a derivative may be asked for."""
    node = _node(EmbeddingGradient, TransformableEmbeddingGradient, grad)
    return (node.apply if node else EmbeddingGradient.forward)(grad, ids, vocab, padding_idx, backend)


def tangent_rows(ids, weight, padding_idx, backend):
    """The lookup as the adjoint of the gradient: +0 for ids that take no part."""
    if padding_idx is not None:
        ids = ids.masked_fill(ids == padding_idx, -1)
    return lookup(ids, weight, None, None, "zero", backend)
