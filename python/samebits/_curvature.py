"""The derivative of the first-order gradient: one symmetric product per row, made of the row functions.

With z the scaled logits, p their probabilities, v a direction in z and J v = p * (v - sum p v), the gradient
``(h - g) p + g onehot(target) - e p (z - sum p z)`` changes along v by

    (h - g) J v  -  e (J v * (a + 1) - p * sum(J v * a)),    a = z - sum p z,

which is the product of the row's Hessian with v: the same for a tangent and for an upstream gradient.
"""

import struct
from typing import NamedTuple

import torch
from torch import Tensor

from . import _options
from ._row_functions import Probability, row_expand, row_sum, scaled, softmax_jacobian

DEFAULTS = (1.0, None, "zero", None, False, "auto")


class Call(NamedTuple):
    """What a call of logp computes on, apart from the logits; nothing here has a derivative."""

    targets: Tensor
    row_temperature: Tensor | None
    rows: Tensor | None
    options: tuple | None


def real_dtype(logits: Tensor, options) -> torch.dtype:
    """float64 where logits are or it was asked for, else float32."""
    return _options.result_dtype(logits, (options or DEFAULTS)[4])


def true_vocab(logits: Tensor, options) -> int:
    """Columns that are not padding."""
    size = (options or DEFAULTS)[3]
    return logits.shape[-1] if size is None else size


def true_columns(values: Tensor, vocab: int) -> Tensor:
    """The columns that are not padding; a view, or `values` itself (a full slice would be one more node)."""
    return values if values.shape[-1] == vocab else values.narrow(-1, 0, vocab)


def selected_rows(rows: Tensor, shape) -> Tensor:
    """A mask of `shape` that is true at the flat row numbers listed; numbers out of range are ignored."""
    count = shape.numel()
    listed = torch.where((rows >= 0) & (rows < count), rows, count).long()
    mask = torch.zeros(count + 1, dtype=torch.bool, device=rows.device).scatter(0, listed, True)
    return mask[:count].view(shape)


def with_selection(call: Call, shape: torch.Size | None = None) -> Call:
    """The same call without a row list: ids of rows not listed become padding.

    The list counts in `shape`, by default that of the targets, else its trailing part.
    """
    if call.rows is None:
        return call
    temperature, ignore_index, *rest = call.options or DEFAULTS
    padding = -(2**63) if ignore_index is None else ignore_index
    chosen = selected_rows(call.rows, call.targets.shape if shape is None else shape)
    ids = call.targets.long().clamp(min=1 - 2**63)  # no id of the caller's is the padding
    targets = torch.where(chosen, ids, padding)
    return Call(targets, call.row_temperature, None, (temperature, padding, *rest))


def participating(call: Call, vocab: int) -> Tensor:
    """``[..., 1]`` mask of the rows that have a derivative; `call` has no row list."""
    targets, ignore_index = call.targets, (call.options or DEFAULTS)[1]
    mask = (targets >= 0) & (targets < vocab)
    if ignore_index is not None:
        mask = mask & (targets != ignore_index)
    return mask.unsqueeze(-1)


def dense_options(options) -> tuple:
    """The options of a call on the true columns alone, in the dtype that is computed in."""
    temperature, ignore_index, *_, backend = options or DEFAULTS
    return (temperature, ignore_index, "zero", None, False, backend)


def inverse_temperature(call: Call, dtype: torch.dtype):
    """RN(1 / temperature): a number, or ``[..., 1]`` of `dtype`."""
    if call.row_temperature is not None:
        tau = call.row_temperature.to(dtype)
        return (torch.ones_like(tau) / tau).unsqueeze(-1)
    tau = (call.options or DEFAULTS)[0]
    if dtype == torch.float64:
        return 1.0 / tau
    # Both roundings are those of float32: 53 bits are enough for the second to be innocuous.
    return _to_float32(1.0 / _to_float32(tau))


def _to_float32(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def curvature(logits, statistics, upstream, call: Call, direction: Tensor) -> Tensor:
    """The Hessian of ``g logp + h lse + e entropy`` times `direction`, in the dtype of the logits.

    Differentiable to any order in the logits, the upstreams and the direction. Rows that take no part give +0
    whatever the direction and the upstreams hold there. Names are dropped early: a temporary is a row long.
    """
    call = with_selection(call)
    dtype, vocab = real_dtype(logits, call.options), true_vocab(logits, call.options)
    x, v = true_columns(logits, vocab).to(dtype), true_columns(direction, vocab).to(dtype)
    mask, inverse = participating(call, vocab), inverse_temperature(call, dtype)
    nothing = torch.zeros((), dtype=dtype, device=logits.device)
    g, h, e = (None if u is None else torch.where(mask.squeeze(-1), u, nothing) for u in upstream)

    p = _probability(x, statistics, call, inverse)
    if e is None:
        del x
    v = scaled(torch.where(mask, v, nothing), inverse)
    moved = softmax_jacobian(p, v)
    del v
    result = None
    if g is not None or h is not None:
        slope = h if g is None else -g if h is None else h - g
        result = moved * row_expand(slope, vocab)
    if e is not None:
        centre = statistics[0].view(call.targets.shape).unsqueeze(-1)
        z = torch.where(p > 0, scaled(x, inverse) - centre, nothing)
        del x
        bent = moved * (z - row_expand(row_sum(p * z), vocab))
        del z
        bent = (bent + moved) - p * row_expand(row_sum(bent), vocab)
        bent = bent * row_expand(-e, vocab)
        result = bent if result is None else result + bent
        del bent
    del p, moved
    result = torch.where(mask, scaled(result, inverse), nothing).to(logits.dtype)
    # torch's operators leave NaNs of several patterns, by machine and by place in the tensor.
    result = torch.where(result.isnan(), _canonical_nan(result.dtype, result.device), result)
    padding = logits.shape[-1] - vocab
    return torch.nn.functional.pad(result, (0, padding)) if padding else result


_NAN_BITS = {
    torch.float64: (torch.int64, 0x7FF8000000000000),
    torch.float32: (torch.int32, 0x7FFFFFFF),
    torch.bfloat16: (torch.int16, 0x7FFF),
    torch.float16: (torch.int16, 0x7FFF),
}


def _canonical_nan(dtype: torch.dtype, device) -> Tensor:
    """The NaN that every backend writes."""
    integer, pattern = _NAN_BITS[dtype]
    return torch.tensor(pattern, dtype=integer, device=device).view(dtype)


def _probability(x: Tensor, statistics, call: Call, inverse) -> Tensor:
    options = dense_options(call.options)
    return Probability.apply(x, call.targets, *statistics[:2], call.row_temperature, inverse, options)
