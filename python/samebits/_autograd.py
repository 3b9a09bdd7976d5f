"""Autograd of logp: the forward node, and the first-order gradient as a node of its own.

Functions here have `forward` without a context and `setup_context`, the form torch.func asks for, and their
backward and jvp are made of Functions again, so derivatives of every order exist. The fused gradient is
itself a Function: a graph kept with create_graph=True and a transform hold the same first-order bits as
ordinary training, and only the derivative of the gradient is composed (`_curvature`).
"""

import torch

from . import _torch_private
from ._curvature import (
    Call,
    curvature,
    dense_options,
    participating,
    real_dtype,
    true_columns,
    true_vocab,
    with_selection,
)
from ._fold import flat_rows, fold, shaped
from ._row_functions import row_sum

_forward = torch.ops.samebits.logp_forward.default
_backward = torch.ops.samebits.logp_backward.default


class Logp(torch.autograd.Function):
    """(logp, lse, entropy, row_max, row_sum, row_entropy_sum) of samebits::logp_forward."""

    @staticmethod
    def forward(logits, targets, row_temperature, rows, lse, entropy, options):
        """Run the forward kernel and keep the row statistics."""
        shape, leading = targets.shape, targets.dim()
        logits, targets = flat_rows(logits, leading, 1), flat_rows(targets, leading)
        row_temperature = flat_rows(row_temperature, leading)
        results = _forward(logits, targets, lse, entropy, True, row_temperature, rows, *(options or ()))
        if leading == targets.dim():
            return results
        asked = (True, lse, entropy)
        values = (v.view(shape) if a else v for v, a in zip(results[:3], asked, strict=True))
        return (*values, *results[3:])

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save the inputs and the row statistics."""
        logits, targets, row_temperature, rows, lse, entropy, ctx.options = inputs
        ctx.asked = (lse, entropy)
        _, lse_out, entropy_out, *statistics = output
        ctx.save_for_backward(logits, targets, row_temperature, rows, *statistics)
        ctx.set_materialize_grads(False)
        unused = ([] if lse else [lse_out]) + ([] if entropy else [entropy_out])
        ctx.mark_non_differentiable(*unused, *statistics)

    @staticmethod
    def backward(ctx, grad_logp, grad_lse, grad_entropy, *_):
        """The fused first-order gradient; a missing upstream counts as +0."""
        if grad_logp is None and grad_lse is None and grad_entropy is None:
            return (None,) * 7
        _torch_private.refuse_batched_graph(grad_logp, grad_lse, grad_entropy)
        logits, targets, row_temperature, rows, *statistics = ctx.saved_tensors
        # A compiler hands over empty zeros for outputs that were not asked for.
        lse, entropy = ctx.asked
        upstream = (grad_logp, grad_lse if lse else None, grad_entropy if entropy else None)
        gradient = LogpGradient.apply if _torch_private.recording() else LogpGradient.forward
        grad = gradient(logits, targets, *statistics, *upstream, row_temperature, rows, ctx.options)
        return grad, None, None, None, None, None, None


class TransformableLogp(Logp):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What Logp saves, for forward mode too."""
        Logp.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4], *output[3:])

    @staticmethod
    def jvp(ctx, tangent, *_):
        """Each output's gradient row times the tangent."""
        saved = (_torch_private.without_tangent(t) for t in ctx.saved_tensors)
        logits, targets, row_temperature, rows, *statistics = saved
        call = Call(targets, row_temperature, rows, ctx.options)
        wanted = (tangent is not None, *(tangent is not None and asked for asked in ctx.asked))
        with _torch_private.outer_levels_recorded():
            return (*directional(logits, statistics, call, tangent, wanted), None, None, None)

    @staticmethod
    def vmap(info, in_dims, logits, targets, row_temperature, rows, lse, entropy, options):
        """One call for all samples; `rows` is None: under a transform the caller made it a mask."""
        size, per_row = info.batch_size, (logits, targets, row_temperature)
        folded = [fold(size, d, t) for d, t in zip(in_dims[:3], per_row, strict=True)]
        *values, row_max, row_total, row_spread = TransformableLogp.apply(
            *folded, None, lse, entropy, options
        )
        count = folded[1].shape[1:].numel()
        statistics = (s.view(size, count if i < 2 or entropy else 0, *s.shape[1:])
                      for i, s in enumerate((row_max, row_total, row_spread)))  # fmt: skip
        dims = (0, 0 if lse else None, 0 if entropy else None, 0, 0, 0)
        return (*values, *statistics), dims


class LogpGradient(torch.autograd.Function):
    """The first-order gradient with respect to the logits, samebits::logp_backward."""

    @staticmethod
    def forward(logits, targets, row_max, row_total, row_spread, grad_logp, grad_lse, grad_entropy,
                row_temperature, rows, options):  # fmt: skip
        """One read and one write of the logits."""
        leading = targets.dim()
        upstream = (flat_rows(u, leading) for u in (grad_logp, grad_lse, grad_entropy))
        gradient = _backward(
            flat_rows(logits, leading, 1), flat_rows(targets, leading),
            *(flat_rows(s, s.dim()) for s in (row_max, row_total, row_spread)),
            *upstream, flat_rows(row_temperature, leading), rows, *(options or ()),
        )  # fmt: skip
        return shaped(gradient, logits.shape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Everything is saved: the derivative is composed from the inputs."""
        *tensors, ctx.options = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad):
        """With respect to the logits the symmetric curvature; the gradient is linear in the upstreams."""
        if grad is None:
            return (None,) * 11
        logits, statistics, upstream, call = LogpGradient._unpack(ctx, ctx.saved_tensors)
        wanted = [u is not None and ctx.needs_input_grad[5 + i] for i, u in enumerate(upstream)]
        to_logits = curvature(logits, statistics, upstream, call, grad) if ctx.needs_input_grad[0] else None
        to_upstream = directional(logits, statistics, call, grad, wanted)
        return (to_logits, None, None, None, None, *to_upstream, None, None, None)

    @staticmethod
    def jvp(ctx, tangent, _targets, _max, _total, _spread, *others):
        """The same curvature, and the gradient at the tangents of the upstreams."""
        saved = [_torch_private.without_tangent(t) for t in ctx.saved_tensors]
        logits, statistics, upstream, call = LogpGradient._unpack(ctx, saved)
        with _torch_private.outer_levels_recorded():
            moved = None if tangent is None else curvature(logits, statistics, upstream, call, tangent)
            tangents = others[:3]
            if all(t is None for t in tangents):
                return moved
            rest = (call.row_temperature, call.rows, call.options)
            linear = LogpGradient.apply(logits, call.targets, *statistics, *tangents, *rest)
            return linear if moved is None else moved + linear

    @staticmethod
    def _unpack(ctx, saved):
        logits, targets, *statistics_and_upstream, row_temperature, rows = saved
        call = Call(targets, row_temperature, rows, ctx.options)
        return logits, statistics_and_upstream[:3], statistics_and_upstream[3:], call

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """One call for all samples; a row list becomes a mask of ids first, for it counts within a sample."""
        *tensors, rows, options = inputs
        size = info.batch_size
        logits, targets, *rest, row_temperature = (
            fold(size, d, t) for d, t in zip(in_dims[:9], tensors, strict=True)
        )
        statistics = (s.contiguous() for s in rest[:3])
        call = with_selection(Call(targets, row_temperature, rows, options), targets.shape[1:])
        arguments = (*statistics, *rest[3:], row_temperature, None, call.options)
        return LogpGradient.apply(logits, call.targets, *arguments), 0


def directional(logits, statistics, call: Call, direction, wanted) -> tuple:
    """The derivative of each wanted output of (logp, lse, entropy) along a direction; None for the others.

    The row of the fused gradient times the direction: the target's column of that row keeps its relative
    accuracy close to probability 1, where the difference of two products would cancel.
    """
    if not any(wanted):
        return (None, None, None)
    call = with_selection(call)
    dtype, vocab = real_dtype(logits, call.options), true_vocab(logits, call.options)
    x, v = true_columns(logits, vocab).to(dtype), true_columns(direction, vocab).to(dtype)
    v = torch.where(participating(call, vocab), v, torch.zeros((), dtype=dtype, device=x.device))
    unit = torch.ones_like(call.targets, dtype=dtype)
    rest = (call.row_temperature, None, dense_options(call.options))

    def along(output: int):
        upstream = [unit if i == output else None for i in range(3)]
        return row_sum(LogpGradient.apply(x, call.targets, *statistics, *upstream, *rest) * v)

    return tuple(along(i) if asked else None for i, asked in enumerate(wanted))


class PlainLogp(torch.autograd.Function):
    """The same for ordinary training, where `setup_context` and six outputs would cost some 20 us more.

    Statistics are saved on the node instead of being outputs of it.
    """

    @staticmethod
    def forward(ctx, logits, targets, row_temperature, rows, lse, entropy, options):
        """Run the forward kernel; only what was asked for is an output."""
        logp, lse_out, entropy_out, *statistics = Logp.forward(
            logits, targets, row_temperature, rows, lse, entropy, options
        )
        ctx.options, ctx.asked = options, (lse, entropy)
        ctx.save_for_backward(logits, targets, row_temperature, rows, *statistics)
        ctx.set_materialize_grads(False)
        if not lse and not entropy:
            return logp
        return (logp, *([lse_out] if lse else []), *([entropy_out] if entropy else []))

    @staticmethod
    def backward(ctx, grad_logp, *others):
        """As Logp.backward, with the upstreams of outputs not asked for put back as missing."""
        lse, entropy = ctx.asked
        grad_lse = others[0] if lse else None
        grad_entropy = others[-1] if entropy else None
        return Logp.backward(ctx, grad_logp, grad_lse, grad_entropy)


def logp(logits, targets, row_temperature, rows, lse, entropy, options):
    """Run the forward node that fits the moment: (logp, lse, entropy), None for one not asked for."""
    inputs = (logits, targets, row_temperature, rows, lse, entropy, options)
    if _torch_private.transforms_active():
        results = TransformableLogp.apply(*inputs)
    elif torch.compiler.is_compiling():
        results = Logp.apply(*inputs)
    else:
        results = PlainLogp.apply(*inputs)
        if not lse and not entropy:
            return results, None, None
        return results[0], results[1] if lse else None, results[-1] if entropy else None
    return results[0], results[1] if lse else None, results[2] if entropy else None
