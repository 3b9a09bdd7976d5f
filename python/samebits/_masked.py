"""masked_sum and masked_mean: reductions whose bits depend on what is added alone, not on order or layout."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from . import _checks, _exact_sum, _torch_private
from ._fold import fold

_reduce = torch.ops.samebits.masked_reduce.default
_spread = torch.ops.samebits.masked_spread.default


class MaskedReduce(torch.autograd.Function):
    """``[count]``: the sum or mean of each segment. Linear; its adjoint is MaskedSpread."""

    @staticmethod
    def forward(values, included, segments, count, mean, empty_is_nan):
        """Exact sums."""
        return _reduce(values, included, segments, count, mean, empty_is_nan)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What takes part, and the shape."""
        values, included, segments, ctx.count, ctx.mean, _ = inputs
        ctx.shape = values.shape
        ctx.save_for_backward(included, segments)

    @staticmethod
    def backward(ctx, grad):
        """Each value gets its segment's upstream, divided by the segment's count for a mean."""
        included, segments = ctx.saved_tensors
        _torch_private.refuse_batched_graph(grad)
        return spread(grad, included, segments, ctx.count, ctx.mean, ctx.shape), *(None,) * 5


class TransformableMaskedReduce(MaskedReduce):
    """The same outside torch.compile, which does not trace a Function that has `jvp` or `vmap` of its own."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What MaskedReduce saves, for forward mode too."""
        MaskedReduce.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[1:3])

    @staticmethod
    def jvp(ctx, tangent, *_):
        """A sum is linear; an empty segment has no tangent."""
        included, segments = (_torch_private.without_tangent(t) for t in ctx.saved_tensors)
        with _torch_private.outer_levels_recorded():
            return reduce(tangent, included, segments, ctx.count, ctx.mean, False)

    @staticmethod
    def vmap(info, in_dims, values, included, segments, count, mean, empty_is_nan):
        """Segments of their own for each sample, and one call."""
        size = info.batch_size
        values, included, segments = _folded(size, in_dims, values, included, segments, count)
        flat = TransformableMaskedReduce.apply(values, included, segments, size * count, mean, empty_is_nan)
        return flat.view(size, count), 0


class MaskedSpread(torch.autograd.Function):
    """`shape`: each value's segment of `grad`, +0 where it is not included; the adjoint of MaskedReduce."""

    @staticmethod
    def forward(grad, included, segments, count, mean, shape):
        """Copies, and for a mean one division."""
        return _spread(grad, included, segments, count, mean, shape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What takes part."""
        _, included, segments, ctx.count, ctx.mean, ctx.shape = inputs
        ctx.save_for_backward(included, segments)

    @staticmethod
    def backward(ctx, grad):
        """Reduces again."""
        return reduce(grad, *ctx.saved_tensors, ctx.count, ctx.mean, False), *(None,) * 5


class TransformableMaskedSpread(MaskedSpread):
    """The same outside torch.compile."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        """What MaskedSpread saves, for forward mode too."""
        MaskedSpread.setup_context(ctx, inputs, output)
        ctx.save_for_forward(*inputs[1:3])

    @staticmethod
    def jvp(ctx, tangent, *_):
        """Linear."""
        included, segments = (_torch_private.without_tangent(t) for t in ctx.saved_tensors)
        with _torch_private.outer_levels_recorded():
            return spread(tangent, included, segments, ctx.count, ctx.mean, ctx.shape)

    @staticmethod
    def vmap(info, in_dims, grad, included, segments, count, mean, shape):
        """Segments of their own for each sample, and one call."""
        size = info.batch_size
        grad = fold(size, in_dims[0], grad).reshape(size * count)
        like = grad.new_empty(()).expand(size, *shape)
        _, included, segments = _folded(size, (0, *in_dims[1:]), like, included, segments, count)
        folded = (grad, included, segments, size * count, mean, (size, *shape))
        return TransformableMaskedSpread.apply(*folded), 0


def _folded(size, in_dims, values, included, segments, count):
    """The mapped axis in front, and `count` segments for each of its samples."""
    values, included, segments = (
        fold(size, dim, t) for dim, t in zip(in_dims, (values, included, segments), strict=False)
    )
    sample = torch.arange(size, device=values.device).view(-1, *(1,) * (values.dim() - 1)) * count
    segments = sample.expand(values.shape) if segments is None else segments + sample
    return values, included, segments


def _node(plain, transformable):
    """The Function that fits the moment."""
    return plain if torch.compiler.is_compiling() or not _torch_private.recording() else transformable


def reduce(values, included, segments, count, mean, empty_is_nan):
    """The sums or means, recorded where a derivative may be asked for."""
    node = _node(MaskedReduce, TransformableMaskedReduce)
    return node.apply(values, included, segments, count, mean, empty_is_nan)


def spread(grad, included, segments, count, mean, shape):
    """The adjoint, recorded where a derivative may be asked for."""
    node = _node(MaskedSpread, TransformableMaskedSpread)
    return node.apply(grad, included, segments, count, mean, shape)


def _check(values, mask, segments, count) -> None:
    """Types, dtypes, devices and shapes of a call."""
    _checks.tensor("values", values)
    _checks.device("values", values, values, "values")
    _checks.dtype("values", values, _checks.FLOATING)
    for argument, value, dtypes in (
        ("mask", mask, (torch.bool,)),
        ("segments", segments, _checks.INTEGER),
    ):
        if value is None:
            continue
        _checks.tensor(argument, value)
        _checks.device(argument, value, values, "values")
        if value.dtype not in dtypes:
            allowed = "bool" if argument == "mask" else "int32 or int64"
            raise TypeError(f"{argument}: is {_checks.name(value.dtype)}; must be {allowed}")
        if value.shape != values.shape:
            raise ValueError(
                f"{argument}: has shape {list(value.shape)}; must be {list(values.shape)}, that of values"
            )
    if (segments is None) != (count is None):
        given, missing = ("segments", "count") if count is None else ("count", "segments")
        raise ValueError(f"{missing}: is None; must be given with {given}")
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, int | torch.SymInt):
        raise TypeError(f"count: is a {type(count).__name__}; must be an int, the number of segments")
    if not 0 <= count <= _exact_sum.MOST_VALUES:
        raise ValueError(f"count: is {count}; may be 0 to {_exact_sum.MOST_VALUES}")


def _masked(values, mask, segments, count, mean, empty_is_nan):
    _torch_private.refuse_compiled_transform()
    _check(values, mask, segments, count)
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    if segments is None:
        return reduce(values, mask, None, 1, mean, empty_is_nan).view(())
    number = segments.long()
    inside = (number >= 0) & (number < count)
    number = torch.where(inside, number, 0)
    return reduce(values, inside if mask is None else mask & inside, number, count, mean, empty_is_nan)


def masked_sum(
    values: Tensor,
    mask: Tensor | None = None,
    *,
    segments: Tensor | None = None,
    count: int | None = None,
) -> Tensor:
    """The sum of the values under a mask, or of each segment of them: the exact sum, rounded once.

    Determinism level: cross_device (docs/contract.md, "Reductions"). Contract ``sum.v1``. The bits depend on
    the values that take part alone: not on their order, on padding or packing, nor on the device.

    Args:
        values: ``[...]`` float32, float64, bfloat16 or float16, any strides, at most 2^30 elements.
        mask: bool of the shape of ``values``: which of them take part; None: all. What stands elsewhere, NaN
            included, is not looked at.
        segments: int32 or int64 of the shape of ``values``: the segment of each (for example the sequence of
            a packed token). A number outside ``[0, count)`` takes no part.
        count: the number of segments, with ``segments``: 0 to 2^30.

    Returns:
        float32 (float64 for float64): 0-d, or ``[count]`` with ``segments``. A sum of nothing, or one that is
            zero, is +0; an infinity gives that infinity, NaN or infinities of both signs give NaN, and a sum
            beyond the largest number the infinity of its sign. Differentiable to any order in ``values``, in
            reverse and forward mode and under the transforms of ``torch.func``; the gradient of a value is
            its sum's upstream, +0 where it takes no part.

    Raises:
        TypeError, ValueError: an argument that is not allowed, named in the message.
        RuntimeError: the values are on a device that this build does not compute on.
        NotDifferentiableError: as :func:`logp`.
    """
    return _masked(values, mask, segments, count, False, False)


def masked_mean(
    values: Tensor,
    mask: Tensor | None = None,
    *,
    segments: Tensor | None = None,
    count: int | None = None,
    on_empty: Literal["nan", "zero"] = "nan",
) -> Tensor:
    """The mean of the values under a mask, or of each segment of them; see :func:`masked_sum`.

    Determinism level: cross_device (docs/contract.md, "Reductions"). Contract ``sum.v1``: the exact sum
    rounded to float64, divided by the number of values in float64, rounded to the result's dtype.

    Args:
        values, mask, segments, count: as in :func:`masked_sum`.
        on_empty: what a mean of nothing is: ``"nan"``, as torch.mean has it, or ``"zero"``, for sequences
            that may be masked altogether.

    Returns:
        As :func:`masked_sum`. The gradient of a value is its mean's upstream divided by the number of values,
            rounded once; a mean of nothing has none.

    Raises:
        TypeError, ValueError, RuntimeError, NotDifferentiableError: as :func:`masked_sum`.
    """
    if on_empty not in ("nan", "zero"):
        raise ValueError(f"on_empty: is {on_empty!r}; may be 'nan' or 'zero'")
    return _masked(values, mask, segments, count, True, on_empty == "nan")
