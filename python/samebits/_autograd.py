"""Autograd of logp: the forward node, and the first-order gradient as a node of its own.

Functions here have `forward` without a context and `setup_context`, the form torch.func asks for. The fused
gradient is itself a Function so that a graph kept with create_graph=True holds the same first-order bits, and
so that its own derivative is a matter of this class alone. That derivative does not exist yet: asking for it
raises (a saved statistic treated as a constant would make it silently wrong).
"""

import torch
from torch.autograd import forward_ad

from ._errors import NotDifferentiableError

_forward = torch.ops.samebits.logp_forward.default
_backward = torch.ops.samebits.logp_backward.default

_NEXT = 'they come with the feature "derivatives of every order"'


def tracks_tangents() -> bool:
    """True inside a forward-mode level, where a plain operator call would drop the tangent unsaid."""
    return forward_ad._current_level >= 0


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
        upstream = (grad_logp, grad_lse, grad_entropy)
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


def logp(*inputs):
    """Run the forward node; `inputs` are those of Logp.forward."""
    node = Logp if torch.compiler.is_compiling() else TransformableLogp
    return node.apply(*inputs)
