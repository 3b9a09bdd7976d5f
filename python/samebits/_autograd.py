"""Autograd of logp: the forward node, and the first-order gradient as a node of its own.

Functions here have `forward` without a context and `setup_context`, the form torch.func asks for. The fused
gradient is itself a Function so that a graph kept with create_graph=True holds the same first-order bits, and
so that its own derivative is a matter of this class alone. That derivative does not exist yet: asking for it
raises (a saved statistic treated as a constant would make it silently wrong).
"""

import torch

from . import _torch_private
from ._errors import NotDifferentiableError

_forward = torch.ops.samebits.logp_forward.default
_backward = torch.ops.samebits.logp_backward.default

_NEXT = 'they come with the feature "derivatives of every order"'


class Logp(torch.autograd.Function):
    """(logp, lse, entropy, row_max, row_sum, row_entropy_sum) of samebits::logp_forward."""

    @staticmethod
    def forward(logits, targets, row_temperature, rows, lse, entropy, options):
        """Run the forward kernel and keep the row statistics."""
        if options is None:
            return _forward(logits, targets, lse, entropy, True, row_temperature, rows)
        return _forward(logits, targets, lse, entropy, True, row_temperature, rows, *options)

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
        logits, targets, row_temperature, rows, *statistics = ctx.saved_tensors
        # A compiler hands over empty zeros for outputs that were not asked for.
        lse, entropy = ctx.asked
        upstream = (grad_logp, grad_lse if lse else None, grad_entropy if entropy else None)
        gradient = LogpGradient.apply if torch.is_grad_enabled() else LogpGradient.forward
        grad = gradient(logits, targets, *statistics, *upstream, row_temperature, rows, ctx.options)
        return grad, None, None, None, None, None, None


class LogpGradient(torch.autograd.Function):
    """The first-order gradient with respect to the logits, samebits::logp_backward."""

    @staticmethod
    def forward(logits, targets, row_max, row_sum, row_entropy_sum, grad_logp, grad_lse, grad_entropy,
                row_temperature, rows, options):  # fmt: skip
        """One read and one write of the logits."""
        statistics, upstream = (row_max, row_sum, row_entropy_sum), (grad_logp, grad_lse, grad_entropy)
        return _backward(logits, targets, *statistics, *upstream, row_temperature, rows, *(options or ()))

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Nothing is saved: there is no derivative to compute."""

    @staticmethod
    def backward(ctx, grad):
        """Second derivatives do not exist yet."""
        raise NotDifferentiableError(
            "logp: second derivatives are not available yet (a gradient of logp was differentiated again, "
            f"for example through create_graph=True); {_NEXT}"
        )


class TransformableLogp(Logp):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def jvp(ctx, *tangents):
        """Forward-mode derivatives do not exist yet."""
        raise NotDifferentiableError(f"logp: forward-mode derivatives are not available yet; {_NEXT}")

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """Mapping over a call that records gradients does not exist yet."""
        raise NotDifferentiableError(f"logp: vmap of a call that requires grad is not available yet; {_NEXT}")


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
    if torch.compiler.is_compiling():
        results = Logp.apply(*inputs)
    elif _torch_private.transforms_active():
        results = TransformableLogp.apply(*inputs)
    else:
        results = PlainLogp.apply(*inputs)
        if not lse and not entropy:
            return results, None, None
        return results[0], results[1] if lse else None, results[-1] if entropy else None
    return results[0], results[1] if lse else None, results[2] if entropy else None
