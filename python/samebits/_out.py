"""The caller's buffer `out=`: what it may be, and how results get into it."""

import torch
from torch import Tensor

from . import _checks, _torch_private
from ._curvature import selected_rows


def check(buffer, targets: Tensor, dtype: torch.dtype, inputs, recorded: bool) -> Tensor:
    """Right kind, no gradient, no memory in common with an input of the (name, tensor or None) pairs.

    Returns the targets to go on with: themselves, or in code that torch.compile traces a copy whose making
    asks for the memory when the code runs. Tracing cannot: a call to come may pass other memory. Nor can
    compiled code of a call that is recorded, for it works on a copy of the buffer: that breaks the graph.
    """
    _checks.tensor("out", buffer)
    if buffer.requires_grad:
        raise ValueError(
            "out: already requires grad; a buffer is written without history, "
            "so pass out.detach() to use it again"
        )
    if buffer.dtype != dtype:
        raise TypeError(f"out: is {_checks.name(buffer.dtype)}; must be {_checks.name(dtype)}")
    if buffer.shape != targets.shape or buffer.device != targets.device:
        raise ValueError(
            f"out: has shape {list(buffer.shape)} on {buffer.device}; "
            f"must be {list(targets.shape)} on {targets.device}"
        )
    present = [(argument, value) for argument, value in inputs if value is not None]
    if torch.compiler.is_compiling() and not recorded:
        names, values = zip(*present, strict=True)
        return _apart(targets, buffer, [value.detach() for value in values], ",".join(names))
    # Also when nothing is traced: of a caller that the compiler gave up, it still compiles the callees.
    _check_memory_uncompiled(buffer, present)
    return targets


def write(out: Tensor, logp: Tensor, rows: Tensor | None) -> Tensor:
    """Copy into the caller's buffer, recorded by autograd; rows not listed keep their values."""
    if rows is not None:
        logp = torch.where(selected_rows(rows, out.shape), logp, out)
    try:
        return out.copy_(logp)
    except RuntimeError as error:
        text = str(error)
        if "mutate a captured Tensor" in text:
            raise ValueError(
                "out: was made outside the transform, which may not change it; "
                "make the buffer inside the function that is transformed"
            ) from None
        if "vmap: inplace arithmetic" in text:
            raise ValueError(
                "out: is one buffer for all samples of a vmap; "
                "must be mapped (one buffer a sample) or made inside the function that is mapped"
            ) from None
        raise


def _check_memory(buffer: Tensor, inputs) -> None:
    """Ordinary memory, every element apart from the others and from those of the inputs."""
    if buffer.is_inference() and not torch.is_inference_mode_enabled():
        raise ValueError("out: was made in inference mode; must be an ordinary tensor outside of it")
    _check_view(buffer, inputs)
    for argument, value in inputs:
        memory = [_torch_private.memory_of(one) for one in (buffer, value)]
        # Two storages may be of one memory. Other classes, such as fake tensors, have none to ask for.
        if all(type(one) in (Tensor, torch.nn.Parameter) for one in memory) and _checks.share_memory(*memory):
            raise ValueError(f"out: shares memory with {argument}; must be memory of its own")


def _check_view(buffer: Tensor, inputs) -> None:
    """What a fake tensor knows of it too."""
    if buffer.is_neg():
        raise ValueError("out: is a view that negates its memory; must be an ordinary tensor")
    known = all(isinstance(number, int) for number in (*buffer.shape, *buffer.stride()))
    if known and _checks.elements_coincide(buffer):
        raise ValueError(
            f"out: has shape {list(buffer.shape)} and strides {list(buffer.stride())}, so elements may "
            "coincide; must hold every element apart"
        )
    storage = _storage(buffer)
    for argument, value in inputs:
        if _storage(value) == storage:
            raise ValueError(f"out: shares storage with {argument}; must be memory of its own")


_check_memory_uncompiled = _torch_private.uncompiled(
    "out: the memory of a buffer of a call that records gradients is looked at outside of compiled code; "
    "under fullgraph=True it must be None"
)(_check_memory)


def _storage(value: Tensor) -> int:
    return _torch_private.memory_of(value).untyped_storage()._cdata


# A copy of the targets, which the computation that writes `out` depends on, so that no compiler drops or
# moves the check. An operator may not return what it was given.
torch.library.define("samebits::apart", "(Tensor targets, Tensor out, Tensor[] inputs, str names) -> Tensor")
_apart = torch.ops.samebits.apart.default


@torch.library.impl("samebits::apart", "default")
def _(targets, out, inputs, names):
    _check_memory_uncompiled(out, list(zip(names.split(","), inputs, strict=True)))
    return targets.clone()


# Else `out` would come with the sign of a negating view resolved.
_library = torch.library.Library("samebits", "FRAGMENT")
_library.impl("apart", torch.library.fallthrough_kernel, "Negative")


@torch.library.register_fake("samebits::apart")
def _(targets, out, inputs, names):
    try:
        _check_view(out, zip(names.split(","), inputs, strict=True))
    except ValueError as error:
        # Of all errors this one makes the tracer leave the call to eager mode, which says the same.
        raise NotImplementedError(str(error)) from None
    return torch.empty_like(targets)
