"""Every use of a torch name that is not public, tested with torch 2.10, 2.11 and 2.15.

A torch without one of them is treated as if a transform were active: slower by microseconds, same results.
"""

import functools
import sys

import torch
from torch.autograd import forward_ad

from ._errors import NotDifferentiableError

_functorch_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_frame_callback = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", lambda: None)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_is_batched = torch._C._functorch.is_batchedtensor
_is_legacy_batched = torch._C._functorch.is_legacy_batchedtensor
_unwrapped = torch._C._functorch.get_unwrapped
_disable_dynamo = getattr(torch, "_disable_dynamo", None) or torch.compiler.disable
_will_execute = getattr(torch._C, "_will_engine_execute_node", lambda node: True)


def tangents_active() -> bool:
    """True inside a forward-mode level, where a plain operator call would drop the tangent unsaid."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def transforms_active() -> bool:
    """True under any torch.func transform or forward-mode level."""
    return _functorch_active() or tangents_active()


def differentiating(*inputs: torch.Tensor | None) -> bool:
    """Whether a call on these inputs must be an autograd Function.

    Under vmap the level that records may be any below the mapped one, and the wrapper above does not show it.
    """
    if tangents_active():
        return True
    return torch.is_grad_enabled() and any(i is not None and _requires_grad(i) for i in inputs)


def refuse_compiled_transform() -> None:
    """Raise under a transform inside compiled code, also in what of that code runs in eager mode.

    A compiler does not trace a Function that has rules for jvp or vmap, and where it leaves a transform half
    to eager mode torch 2.11 loses derivatives without a word, those of plain torch operators too.
    """
    if transforms_active() and (torch.compiler.is_compiling() or _frame_callback()):
        raise NotDifferentiableError(
            "samebits: called under a torch.func transform or a forward-mode level inside torch.compile, "
            "which does not trace it; put the transformed function under torch.compiler.disable"
        )


def uncompiled(reason: str):
    """A decorator: compiled code leaves the function to eager mode, or says the reason under fullgraph=True.

    ``torch.compiler.disable`` does it too, but loads the compiler, which eager mode has no use for.
    """

    def decorate(function):
        in_eager_mode = _disable_dynamo(function)

        @functools.wraps(function)
        def call(*arguments):
            if torch.compiler.is_compiling():
                torch._dynamo.graph_break(msg=reason)
                return in_eager_mode(*arguments)
            return (in_eager_mode if "torch._dynamo" in sys.modules else function)(*arguments)

        return call

    return decorate


def _requires_grad(tensor: torch.Tensor) -> bool:
    while not tensor.requires_grad:
        if not _functorch_active() or not _is_wrapped(tensor):
            return False
        tensor = _unwrapped(tensor)
    return True


def has_derivative(tensor: torch.Tensor) -> bool:
    """Whether `tensor` requires grad or has a tangent, at any level of torch.func."""
    while True:
        if tensor.requires_grad:
            return True
        if not _is_batched(tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            return True
        if not _functorch_active() or not _is_wrapped(tensor):
            return False
        tensor = _unwrapped(tensor)


def refuse_batched_graph(*upstream: torch.Tensor | None) -> None:
    """Raise where is_grads_batched=True meets create_graph=True.

    torch.autograd batches upstreams with an older vmap, which does not see autograd Functions: the graph of
    the gradient would be lost without a word.
    """
    if torch.is_grad_enabled() and any(u is not None and _is_legacy_batched(u) for u in upstream):
        raise NotDifferentiableError(
            "samebits: is_grads_batched=True (or vectorize=True) with create_graph=True loses the graph of a "
            "custom gradient; use torch.func (jacrev, hessian, vmap of vjp) or leave one of them out"
        )


def backward_asks_for(ctx, index: int) -> bool:
    """Whether the running backward pass goes on to the tensor input `index` of a Function, or ends before it.

    ``ctx.needs_input_grad`` says only whether the input requires grad, also where torch.autograd.grad was
    asked for other inputs.
    """
    node = ctx.next_functions[index][0]
    try:
        return node is not None and _will_execute(node)
    except RuntimeError:  # torch does not say it of a leaf whose gradient is handed back
        return True


def recording() -> bool:
    """Whether a derivative of what is computed now may be asked for, so that a Function must record it."""
    return torch.is_grad_enabled() or transforms_active()


def without_tangent(value):
    """`value` without its tangent of the innermost forward-mode level; anything but a tensor as it is."""
    return forward_ad.unpack_dual(value).primal if isinstance(value, torch.Tensor) else value


def outer_levels_recorded():
    """A context inside `jvp`, in which outer forward-mode levels see what is computed.

    torch switches forward mode off around the `jvp` of a Function, for all levels alike, and so drops the
    tangents of the outer ones without a word. Tensors used inside must be `without_tangent`.
    """
    return forward_ad._set_fwd_grad_enabled(True)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that owns the memory, beneath the wrappers of torch.func."""
    while _is_wrapped(tensor):
        tensor = _unwrapped(tensor)
    return tensor
