"""Every use of a torch name that is not public, tested with torch 2.10, 2.11 and 2.15.

A torch without one of them is treated as if a transform were active: slower by microseconds, same results.
"""

import torch
from torch.autograd import forward_ad

_functorch_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_unwrapped = torch._C._functorch.get_unwrapped


def tangents_active() -> bool:
    """True inside a forward-mode level, where a plain operator call would drop the tangent unsaid."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def transforms_active() -> bool:
    """True under any torch.func transform or forward-mode level."""
    return _functorch_active() or tangents_active()


def differentiating(logits: torch.Tensor) -> bool:
    """Whether a call on these logits must be an autograd Function.

    Under vmap the level that records may be any below the mapped one, and the wrapper above does not show it.
    """
    if tangents_active():
        return True
    if not torch.is_grad_enabled():
        return False
    while not logits.requires_grad:
        if not _functorch_active() or not _is_wrapped(logits):
            return False
        logits = _unwrapped(logits)
    return True


def recording() -> bool:
    """Whether a derivative of what is computed now may be asked for, so that a Function must record it."""
    return not torch.compiler.is_compiling() and (torch.is_grad_enabled() or transforms_active())


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
