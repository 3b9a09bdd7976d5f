"""Autograd of linear_logp: the forward node, and its three first-order gradients as one node of their own.

As in `_autograd`: the fused gradient is itself a Function, so its bits are the same with and without a kept
graph, and only the derivative of the gradient is composed (`_composed_head`).
"""

import torch

from . import _checks, _torch_private
from ._autograd import directional
from ._composed_head import Composed, HeadCall
from ._errors import NotDifferentiableError, raise_clearly
from ._fold import flat_rows, fold, shaped

_forward = torch.ops.samebits.linear_logp_forward.default
_backward = torch.ops.samebits.linear_logp_backward.default
_backward_into = torch.ops.samebits.linear_logp_backward_into.default


def _flat(hidden, targets, row_temperature):
    leading = targets.dim()
    return flat_rows(hidden, leading, 1), flat_rows(targets, leading), flat_rows(row_temperature, leading)


class LinearLogp(torch.autograd.Function):
    """(logp, lse, entropy, row_max, row_sum, row_entropy_sum, saved) of samebits::linear_logp_forward."""

    @staticmethod
    def forward(hidden, weight, bias, targets, row_temperature, rows, lse, entropy, saved_rows, contract,
                accumulator, options):  # fmt: skip
        """Run the forward kernel; keep row statistics, and probabilities of at most `saved_rows` rows."""
        shape = targets.shape
        hidden, targets, row_temperature = _flat(hidden, targets, row_temperature)
        results = _forward(
            hidden, weight, targets, bias, lse, entropy, True, contract, saved_rows, row_temperature, rows,
            *options,
        )  # fmt: skip
        asked = (True, lse, entropy)
        values = (shaped(v, shape) if a else v for v, a in zip(results[:3], asked, strict=True))
        return (*values, *results[3:])

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Save operands, row statistics and kept probabilities; what is not kept is recomputed."""
        *tensors, lse, entropy, _, ctx.contract, ctx.accumulator, ctx.options = inputs
        ctx.asked = (lse, entropy)
        _, lse_out, entropy_out, *statistics = output
        ctx.save_for_backward(*tensors, *statistics)
        ctx.set_materialize_grads(False)
        unused = ([] if lse else [lse_out]) + ([] if entropy else [entropy_out])
        ctx.mark_non_differentiable(*unused, *statistics)

    @staticmethod
    def backward(ctx, grad_logp, grad_lse, grad_entropy, *_):
        """The fused first-order gradients of the operands that want one."""
        nothing = (None,) * 12
        wanted = ctx.needs_input_grad[:3]
        lse, entropy = ctx.asked
        # A compiler hands over empty zeros for outputs that were not asked for.
        upstream = (grad_logp, grad_lse if lse else None, grad_entropy if entropy else None)
        if all(u is None for u in upstream) or not any(wanted):
            return nothing
        _torch_private.refuse_batched_graph(*upstream)
        hidden, weight, bias, targets, row_temperature, rows, *statistics, saved = ctx.saved_tensors
        rest = (saved, row_temperature, rows, ctx.contract)
        if ctx.accumulator is not None and wanted[1]:
            if _torch_private.recording() or _torch_private.backward_asks_for(ctx, 1):
                return _accumulate(ctx, hidden, weight, bias, targets, statistics, upstream, rest)
            wanted = (wanted[0], False, wanted[2])
        gradient = LinearLogpGradient.apply if _torch_private.recording() else LinearLogpGradient.forward
        grads = gradient(hidden, weight, bias, targets, *statistics, *upstream, *rest, wanted, ctx.options)
        return (*(g if w else None for g, w in zip(grads, wanted, strict=True)), *nothing[3:])


def _accumulate(ctx, hidden, weight, bias, targets, statistics, upstream, rest):
    if _torch_private.recording():
        raise NotDifferentiableError(
            "grad_weight_accumulator: a gradient added to a buffer has no derivative of its own; call "
            "backward without create_graph, or leave the accumulator out"
        )
    _checks.accumulator_memory("grad_weight_accumulator", ctx.accumulator, weight.shape, weight)
    to_hidden, _, to_bias = ctx.needs_input_grad[:3]
    saved, row_temperature, rows, contract = rest
    leading = targets.dim()
    flat_hidden, flat_targets, flat_temperature = _flat(hidden, targets, row_temperature)
    try:
        grad_hidden, grad_bias = _backward_into(
            flat_hidden, weight, flat_targets, bias, *statistics, *(flat_rows(u, leading) for u in upstream),
            ctx.accumulator, to_hidden, to_bias, contract, saved, flat_temperature, rows, *ctx.options,
        )  # fmt: skip
    except RuntimeError as error:
        raise_clearly(error)
    torch.autograd.graph.increment_version(ctx.accumulator)
    grads = (shaped(grad_hidden, hidden.shape) if to_hidden else None, None, grad_bias if to_bias else None)
    return (*grads, *(None,) * 9)


class TransformableLinearLogp(LinearLogp):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What LinearLogp saves, for forward mode too."""
        LinearLogp.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:6], *output[3:])

    @staticmethod
    def jvp(ctx, to_hidden, to_weight, to_bias, *_):
        """Each output's gradient row times the tangent of the logits."""
        saved = [_torch_private.without_tangent(t) for t in ctx.saved_tensors]
        hidden, weight, bias, targets, row_temperature, rows, *statistics, _ = saved
        with _torch_private.outer_levels_recorded():
            head = Composed(
                hidden, weight, bias, HeadCall(targets, row_temperature, rows, ctx.contract, ctx.options)
            )
            moved = head.moved(to_hidden, to_weight, to_bias)
            wanted = (moved is not None, *(moved is not None and asked for asked in ctx.asked))
            return (*directional(head.logits, statistics, head.call, moved, wanted), *(None,) * 4)

    @staticmethod
    def vmap(info, in_dims, hidden, weight, bias, targets, row_temperature, rows, *rest):
        """One call for all samples that share a head, else one each; `rows` is None under a transform."""
        size, (lse, entropy, _, *others) = info.batch_size, rest
        rest = (lse, entropy, 0, *others)  # kept rows are counted over all samples: none to share out
        if in_dims[1] is None and in_dims[2] is None:
            tensors = zip((in_dims[0], *in_dims[3:5]), (hidden, targets, row_temperature), strict=True)
            hidden, targets, row_temperature = (fold(size, d, t) for d, t in tensors)
            *values, row_max, row_total, row_spread, saved = TransformableLinearLogp.apply(
                hidden, weight, bias, targets, row_temperature, None, *rest
            )
            count = targets.shape[1:].numel()
            statistics = (s.view(size, count if i < 2 or entropy else 0, *s.shape[1:])
                          for i, s in enumerate((row_max, row_total, row_spread)))  # fmt: skip
            results = (*values, *statistics, saved)
        else:
            operands = (hidden, weight, bias, targets, row_temperature, None)
            mapped = (True, lse, entropy, True, True, True, False)
            results = _one_by_one(TransformableLinearLogp, size, in_dims, operands, rest, mapped)
        return results, (0, 0 if lse else None, 0 if entropy else None, 0, 0, 0, None)


def _one_by_one(function, size, in_dims, tensors, rest, mapped):
    """The outputs of one call per sample, those that are mapped stacked."""
    folded = [fold(size, d, t) for d, t in zip(in_dims, tensors, strict=False)]
    if size == 0:  # shapes and dtypes of a sample that does not exist
        folded = [None if t is None else t.new_zeros((1, *t.shape[1:])) for t in folded]
    samples = zip(*([None] * max(size, 1) if t is None else t.unbind() for t in folded), strict=True)
    outputs = zip(*(function.apply(*sample, *rest) for sample in samples), strict=True)
    stacked = (torch.stack(each) if m else each[0] for each, m in zip(outputs, mapped, strict=True))
    return tuple(s[:0] if size == 0 and m else s for s, m in zip(stacked, mapped, strict=True))


class LinearLogpGradient(torch.autograd.Function):
    """The first-order gradients, samebits::linear_logp_backward; those not wanted have no elements."""

    @staticmethod
    def forward(hidden, weight, bias, targets, row_max, row_total, row_spread, grad_logp, grad_lse,
                grad_entropy, saved, row_temperature, rows, contract, wanted, options):  # fmt: skip
        """Recompute, part by part, what was not kept; one product for each gradient of a matrix."""
        leading = targets.dim()
        flat_hidden, flat_targets, flat_temperature = _flat(hidden, targets, row_temperature)
        upstream = (flat_rows(u, leading) for u in (grad_logp, grad_lse, grad_entropy))
        to_hidden, *others = _backward(
            flat_hidden, weight, flat_targets, bias, row_max, row_total, row_spread, *upstream, *wanted,
            contract, saved, flat_temperature, rows, *options,
        )  # fmt: skip
        return (shaped(to_hidden, hidden.shape) if wanted[0] else to_hidden, *others)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Everything is saved: the derivative is composed from the inputs."""
        *tensors, ctx.contract, ctx.wanted, ctx.options = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(o for o, w in zip(output, ctx.wanted, strict=True) if not w))

    @staticmethod
    def backward(ctx, *grads):
        """Symmetric in the operands, and linear in the upstreams."""
        head, statistics, upstream = LinearLogpGradient._unpack(ctx, ctx.saved_tensors)
        grads = [g if w else None for g, w in zip(grads, ctx.wanted, strict=True)]
        if all(g is None for g in grads):
            return (None,) * 16
        wanted = [u is not None and ctx.needs_input_grad[7 + i] for i, u in enumerate(upstream)]
        to_operands = head.change(statistics, upstream, grads, (None,) * 3, ctx.needs_input_grad[:3])
        moved = head.moved(*grads)
        to_upstream = directional(head.logits, statistics, head.call, moved, wanted)
        return (*to_operands, *(None,) * 4, *to_upstream, *(None,) * 6)

    @staticmethod
    def jvp(ctx, to_hidden, to_weight, to_bias, _targets, _max, _total, _spread, *others):
        """The same change along the tangents, and the gradient at the tangents of the upstreams."""
        saved = [_torch_private.without_tangent(t) for t in ctx.saved_tensors]
        with _torch_private.outer_levels_recorded():
            head, statistics, upstream = LinearLogpGradient._unpack(ctx, saved)
            tangents = (to_hidden, to_weight, to_bias)
            return head.change(statistics, upstream, tangents, others[:3], ctx.wanted)

    @staticmethod
    def _unpack(ctx, saved):
        hidden, weight, bias, targets, *rest, _, row_temperature, rows = saved
        call = HeadCall(targets, row_temperature, rows, ctx.contract, ctx.options)
        return Composed(hidden, weight, bias, call), rest[:3], rest[3:]

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """One call per sample: each has a gradient of weight to itself."""
        *tensors, contract, wanted, options = inputs
        rest = (contract, wanted, options)
        results = _one_by_one(LinearLogpGradient, info.batch_size, in_dims, tensors, rest, wanted)
        return results, tuple(0 if w else None for w in wanted)


def linear_logp(*inputs):
    """Run the forward node that fits the moment: (logp, lse, entropy), empty where not asked for."""
    traced = torch.compiler.is_compiling() and not _torch_private.transforms_active()
    return (LinearLogp if traced else TransformableLinearLogp).apply(*inputs)[:3]


@_checks.uncompiled_accumulator
def accumulating_linear_logp(*inputs):
    """The same with an accumulator."""
    return linear_logp(*inputs)
