"""Selected-token log-probabilities of the last axis, differentiable to any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict, overload

import torch
from torch import Tensor

from . import _autograd, _checks, _options, _out, _torch_private
from ._curvature import Call, with_selection
from ._errors import raise_clearly

if TYPE_CHECKING:
    from typing_extensions import Unpack

_logp = torch.ops.samebits.logp.default
_logp_out = torch.ops.samebits.logp_out.default
_logp_forward = torch.ops.samebits.logp_forward.default


class LogpLse(NamedTuple):
    """Log-probabilities and log-sum-exp."""

    logp: Tensor
    lse: Tensor


class LogpEntropy(NamedTuple):
    """Log-probabilities and entropy."""

    logp: Tensor
    entropy: Tensor


class LogpLseEntropy(NamedTuple):
    """Log-probabilities, log-sum-exp and entropy."""

    logp: Tensor
    lse: Tensor
    entropy: Tensor


LogpResult = Tensor | LogpLse | LogpEntropy | LogpLseEntropy


class LogpOptions(TypedDict, total=False):
    """Keywords of logp that do not decide what is returned."""

    temperature: float | Tensor | None
    rows: Tensor | None
    out: Tensor | None
    precision: Literal["fp64"] | None
    ignore_index: int | None
    on_invalid: Literal["zero", "nan", "raise"]
    vocab_size: int | None
    backend: str | None


def pack(logp: Tensor, lse: Tensor, entropy: Tensor, return_lse: bool, return_entropy: bool) -> LogpResult:
    """What was asked for: a tensor, or a named tuple of several."""
    if return_lse and return_entropy:
        return LogpLseEntropy(logp, lse, entropy)
    if return_lse:
        return LogpLse(logp, lse)
    if return_entropy:
        return LogpEntropy(logp, entropy)
    return logp


@overload
def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[False] = False,
    return_entropy: Literal[False] = False,
    **options: Unpack[LogpOptions],
) -> Tensor:
    """Log-probabilities alone."""


@overload
def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[True],
    return_entropy: Literal[False] = False,
    **options: Unpack[LogpOptions],
) -> LogpLse:
    """With the log-sum-exp."""


@overload
def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[False] = False,
    return_entropy: Literal[True],
    **options: Unpack[LogpOptions],
) -> LogpEntropy:
    """With the entropy."""


@overload
def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[True],
    return_entropy: Literal[True],
    **options: Unpack[LogpOptions],
) -> LogpLseEntropy:
    """With both."""


@overload
def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    return_lse: bool,
    return_entropy: bool,
    **options: Unpack[LogpOptions],
) -> LogpResult:
    """With what the flags say."""


def logp(
    logits: Tensor,
    targets: Tensor,
    *,
    temperature: float | Tensor | None = None,
    rows: Tensor | None = None,
    out: Tensor | None = None,
    precision: Literal["fp64"] | None = None,
    return_lse: bool = False,
    return_entropy: bool = False,
    ignore_index: int | None = None,
    on_invalid: Literal["zero", "nan", "raise"] = "zero",
    vocab_size: int | None = None,
    backend: str | None = None,
) -> LogpResult:
    """Selected-token log-probabilities ``log_softmax(logits / temperature)[..., targets]`` of the last axis.

    Determinism level: cross_device (``src/order/row.h``, docs/contract.md). Contract ``row.v1``, or
    ``row64.v1`` for float64. The bits of a row depend on that row's logits, id and temperature and on
    ``vocab_size``; never on the batch, layout, strides, threads, backend, or on whether gradients are
    recorded.

    Args:
        logits: ``[..., vocab]`` float32, bfloat16, float16 or float64, never modified. Any strides; read in
            place where the last axis is dense, copied where it is not. At most 8 axes and 2^22 columns.
        targets: ``[...]`` int32 or int64 ids, any strides, compared at their own width.
        temperature: divides the logits before normalisation. A number, or a float32 or float64 tensor of the
            shape of ``targets`` (extents of 1 and 0-d are expanded). Finite, within [2^-64, 2^64]. A
            constant: one that requires grad is refused. Default 1: that of the unscaled logits.
        rows: 1-D int32 or int64 numbers of the rows (of the flattened leading shape) to compute. The output
            keeps its full shape; rows not listed take the form of padding. Duplicates and numbers out of
            range are fine.
        out: buffer of the result's shape and dtype, returned itself. Rows not listed in ``rows`` keep their
            values. Must not require grad nor share storage with an input; after a call that records gradients
            it belongs to the graph, so pass ``out.detach()`` to use it again. Under a transform it must be
            made inside the transformed function, or mapped by vmap. Under torch.compile such a call breaks
            the graph, for compiled code works on a copy of the buffer; one that records nothing does not.
        precision: ``"fp64"`` normalises and returns float64 whatever the dtype of the logits.
        return_lse: also return the log-sum-exp of the scaled logits (nats).
        return_entropy: also return the entropy of the row's distribution (nats).
        ignore_index: an id that always counts as padding, even inside the vocabulary.
        on_invalid: what an id outside the vocabulary gives. ``"zero"``: padding, that is logp 0, lse -inf,
            entropy 0 and zero gradient. ``"nan"``: NaN and zero gradient. ``"raise"``: ValueError naming the
            first bad position.
        vocab_size: true vocabulary size; columns beyond it are never read and have zero gradient.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        float32 ``[...]`` (float64 under ``row64.v1``); a named tuple ``(logp, lse, entropy)`` of those asked
        for when that is more than one. Differentiable to any order with respect to ``logits``, in reverse and
            forward mode, and usable under every transform of ``torch.func`` (docs/derivatives.md).

    Raises:
        ValueError, TypeError: an argument that is not allowed; the message names it, what it was and what it
            may be. Nothing has been written.
        RuntimeError: no backend can run the request, or a result finds no memory: the message says which.
        NotDifferentiableError: called under a transform inside torch.compile, or differentiated with
            ``is_grads_batched`` and ``create_graph`` at once: torch would lose derivatives without a word.
    """
    _torch_private.refuse_compiled_transform()
    ids, listed = targets, rows
    if (
        temperature is None and rows is None and out is None and precision is None
        and ignore_index is None and on_invalid == "zero" and vocab_size is None and backend is None
    ):  # fmt: skip
        row_temperature, options = None, None  # the operators' defaults, which cost nothing to pass
    else:
        _options.check_semantics(ignore_index, on_invalid, vocab_size)
        _checks.tensor("targets", targets)
        number, row_temperature = _options.split_temperature(temperature, targets)
        binary64, name = _options.is_binary64(precision), _options.backend_name(backend)
        options = (number, ignore_index, on_invalid, vocab_size, binary64, name)
        if out is not None:
            _checks.logp(logits, targets, row_temperature, rows)
            inputs = (("logits", logits), ("targets", targets), ("temperature", row_temperature),
                      ("rows", rows))  # fmt: skip
            recorded = _torch_private.differentiating(logits)
            ids = _out.check(out, targets, _options.result_dtype(logits, binary64), inputs, recorded)
        if rows is not None and _torch_private.transforms_active():
            _checks.logp(logits, targets, row_temperature, rows)
            masked = with_selection(Call(ids, row_temperature, rows, options))
            ids, listed, options = masked.targets, None, masked.options
    try:
        if _torch_private.differentiating(logits):
            if logits.dim() > _checks.MAX_DIMENSIONS:
                _checks.logp(logits, targets)  # the kernel would see rows alone
            results = _autograd.logp(
                logits, ids, row_temperature, listed, return_lse, return_entropy, options
            )
        elif return_lse or return_entropy:
            results = _logp_forward(
                logits, ids, return_lse, return_entropy, False, row_temperature, listed, *(options or ())
            )
        elif options is None:
            return _logp(logits, targets)
        elif out is None:
            return _logp(logits, ids, row_temperature, listed, *options)
        elif torch.compiler.is_compiling() or _torch_private.transforms_active():
            # Compiled code counts the changes of a buffer where torch's own operator writes it.
            results = (_logp(logits, ids, row_temperature, listed, *options), None, None)
        else:
            _logp_out(logits, ids, out, row_temperature, rows, *options)
            torch.autograd.graph.increment_version(out)
            return out
    except Exception as error:
        raise_clearly(error, _checks.logp, logits, targets, None, rows)
    values = results[0] if out is None else _out.write(out, results[0], rows)
    return pack(values, results[1], results[2], return_lse, return_entropy)
