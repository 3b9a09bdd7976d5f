"""Argument checks made in Python.

The native library checks everything that has to do with its views; a call that goes well runs none of this.
These run for arguments that cannot reach it (not a tensor, another device), and in the fake kernels.
"""

import torch

from . import _native, _torch_private
from ._errors import NotDifferentiableError

FLOATING = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
INTEGER = (torch.int32, torch.int64)
MAX_DIMENSIONS = 8
IDS = ("ids", "targets")  # operands that hold ids


def name(dtype: torch.dtype) -> str:
    """The name of a dtype without the leading "torch."."""
    return str(dtype).removeprefix("torch.")


def _names(dtypes) -> str:
    return ", ".join(name(d) for d in dtypes[:-1]) + " or " + name(dtypes[-1])


def tensor(argument: str, value) -> None:
    """`value` is a torch.Tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{argument}: is a {type(value).__name__}; must be a torch.Tensor")
    if value.layout != torch.strided or value.is_nested:
        layout = "nested" if value.is_nested else name(value.layout)
        raise TypeError(f"{argument}: is a {layout} tensor; must be an ordinary strided one")


def dtype(argument: str, value: torch.Tensor, allowed) -> None:
    """The dtype of `value` is one of those allowed."""
    if value.dtype not in allowed:
        raise TypeError(f"{argument}: is {name(value.dtype)}; may be {_names(allowed)}")


def device(argument: str, value: torch.Tensor, like: torch.Tensor, like_name: str) -> None:
    """`value` is where `like` is, and that is a device this build computes on."""
    kind = like.device.type
    if kind == "cuda" and _native.cuda_problem:
        raise RuntimeError(f"{like_name}: is on {like.device}, and {_native.cuda_problem}; may be on cpu")
    if kind not in ("cpu", "cuda", "meta"):
        raise RuntimeError(f"{like_name}: is on {like.device}; may be on cpu or cuda")
    if value.device != like.device:
        raise ValueError(
            f"{argument}: is on {value.device} but {like_name} is on {like.device}; must be on one device"
        )


def operands(names: tuple[str, ...], *values) -> None:
    """Tensors on one device: ids of an integer dtype, all others of one floating dtype."""
    named = list(zip(names, values, strict=True))
    for argument, value in named:
        tensor(argument, value)
    if not named:
        return
    first_name, first = next((pair for pair in named if pair[0] not in IDS), named[0])
    for argument, value in named:
        device(argument, value, first, first_name)
        dtype(argument, value, INTEGER if argument in IDS else FLOATING)
        if argument not in IDS and value.dtype != first.dtype:
            raise TypeError(
                f"{argument}: is {name(value.dtype)} but {first_name} is {name(first.dtype)}; "
                "operands of one call must share one dtype"
            )


def logp(logits, targets, row_temperature=None, rows=None) -> None:
    """Types, dtypes, devices and shapes of a logp call."""
    operands(("logits", "targets"), logits, targets)
    if logits.dim() == 0:
        raise ValueError("logits: has no axis; must have at least one")
    leading(targets, logits, "logits")
    row_lists(row_temperature, rows, logits, "logits")


def leading(targets: torch.Tensor, like: torch.Tensor, like_name: str) -> None:
    """`targets` has the leading shape of `like`."""
    if like.dim() > MAX_DIMENSIONS:
        raise ValueError(f"{like_name}: has {like.dim()} dimensions; may have at most {MAX_DIMENSIONS}")
    if targets.dim() != like.dim() - 1 or targets.shape != like.shape[:-1]:
        raise ValueError(
            f"targets: has shape {list(targets.shape)}; must have the leading shape "
            f"{list(like.shape[:-1])} of {like_name}"
        )


def at_most(argument: str, value: torch.Tensor, size, what: str, power: int) -> None:
    """No more than 2^power of something: an expanded tensor may be larger than any memory, and would be
    worked on for ever."""
    if isinstance(size, int) and size > 1 << power:  # a compiler may leave it open
        raise ValueError(
            f"{argument}: has shape {list(value.shape)}, {size} {what}; may have at most 2^{power}"
        )


def row_lists(row_temperature, rows, like: torch.Tensor | None, like_name: str) -> None:
    """Per-row temperature and list of rows, beside a tensor they belong to, if there is one."""
    if row_temperature is not None:
        tensor("temperature", row_temperature)
        if like is not None:
            device("temperature", row_temperature, like, like_name)
        dtype("temperature", row_temperature, (torch.float32, torch.float64))
    if rows is not None:
        tensor("rows", rows)
        if like is not None:
            device("rows", rows, like, like_name)
        dtype("rows", rows, INTEGER)
        if rows.dim() != 1:
            raise ValueError(f"rows: has shape {list(rows.shape)}; must be 1-D")
        at_most("rows", rows, rows.shape[0], "entries", 31)


# torch.compile does not trace what a backward does that writes memory: it leaves such a call to eager mode.
uncompiled_accumulator = _torch_private.uncompiled(
    "grad_weight_accumulator or grad_accumulator: a buffer that backward writes is not traced by "
    "torch.compile; under fullgraph=True it must be None"
)


@uncompiled_accumulator
def accumulator(argument: str, buffer, weight: torch.Tensor, inputs) -> None:
    """A buffer to which backward adds the gradient of `weight`, which is an operand of a floating dtype.

    No memory in common with an input of the (name, tensor or None) pairs.
    """
    tensor(argument, buffer)
    if _torch_private.transforms_active():
        raise NotDifferentiableError(
            f"{argument}: a buffer that backward writes is not traced by transforms; may be None"
        )
    accumulator_memory(argument, buffer, weight.shape, weight)
    for other, value in inputs:
        if value is not None and share_memory(buffer, value):
            raise ValueError(f"{argument}: shares memory with {other}; must be memory of its own")
    if torch.is_grad_enabled() and not weight.requires_grad:
        raise ValueError(f"{argument}: weight does not require grad, so nothing would be added; may be None")


def accumulator_memory(argument: str, buffer: torch.Tensor, shape, like: torch.Tensor) -> None:
    """The same of its kind and memory alone, for a weight of `shape` with the dtype and device of `like`.

    Asked at the call, and again before backward writes: a tensor's ``.data`` may be another by then.
    """
    wide = torch.float64 if like.dtype == torch.float64 else torch.float32
    device(argument, buffer, like, "weight")
    if buffer.dtype != wide:
        raise TypeError(f"{argument}: is {name(buffer.dtype)}; must be {name(wide)}")
    if buffer.shape != shape:
        raise ValueError(f"{argument}: has shape {list(buffer.shape)}; must be {list(shape)}, that of weight")
    if buffer.requires_grad:
        raise ValueError(
            f"{argument}: requires grad; must be a buffer without history, such as weight.main_grad"
        )
    if buffer.is_neg():
        raise ValueError(f"{argument}: is a view that negates its memory; must be an ordinary tensor")
    if elements_coincide(buffer):
        raise ValueError(
            f"{argument}: has shape {list(buffer.shape)} and strides {list(buffer.stride())}, so elements "
            "may coincide; must hold every element apart"
        )
    if buffer.shape[-1] > 1 and buffer.stride(-1) != 1:
        raise ValueError(
            f"{argument}: has stride {buffer.stride(-1)} along the last axis; must have stride 1 there"
        )


def elements_coincide(value: torch.Tensor) -> bool:
    """Unless every stride reaches beyond all that smaller ones reach; also true of some odd interleavings."""
    reach = 0
    for stride, size in sorted(zip(value.stride(), value.shape, strict=True)):
        if size > 1 and stride <= reach:
            return value.numel() > 0
        reach += stride * (size - 1)
    return False


def _span(value: torch.Tensor) -> tuple[int, int]:
    """First byte, and the one behind the last."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    first = value.data_ptr()
    held = first != 0 and value.numel() > 0  # not on the meta device
    return first, first + (elements * value.element_size() if held else 0)


def share_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the memory from first to last element has a byte in common."""
    (a_first, a_end), (b_first, b_end) = _span(a), _span(b)
    return a_first < b_end and b_first < a_end
