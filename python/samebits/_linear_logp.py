"""Log-probabilities fused with the LM head. Forward only for now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, overload

import torch
from torch import Tensor

from . import _checks, _torch_private
from ._errors import NotDifferentiableError, raise_clearly
from ._linear import check_contract
from ._logp import (
    LogpEntropy,
    LogpLse,
    LogpLseEntropy,
    LogpResult,
    check_logp_out,
    check_options,
    is_binary64,
    pack,
    split_temperature,
    write_out,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_linear_logp = torch.ops.samebits.linear_logp_forward.default


class HeadOptions(TypedDict, total=False):
    """Keywords of linear_logp that do not decide what is returned."""

    bias: Tensor | None
    temperature: float | Tensor | None
    contract: Literal["auto", "fma", "tc16"]
    memory: int | Literal["auto", "save", "recompute"]
    grad_weight_accumulator: Tensor | None
    rows: Tensor | None
    out: Tensor | None
    precision: Literal["fp64"] | None
    ignore_index: int | None
    on_invalid: Literal["zero", "nan", "raise"]
    vocab_size: int | None
    backend: str | None
    group: None


@overload
def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[False] = False,
    return_entropy: Literal[False] = False,
    **options: Unpack[HeadOptions],
) -> Tensor:
    """Log-probabilities alone."""


@overload
def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[True],
    return_entropy: Literal[False] = False,
    **options: Unpack[HeadOptions],
) -> LogpLse:
    """With the log-sum-exp."""


@overload
def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[False] = False,
    return_entropy: Literal[True],
    **options: Unpack[HeadOptions],
) -> LogpEntropy:
    """With the entropy."""


@overload
def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    return_lse: Literal[True],
    return_entropy: Literal[True],
    **options: Unpack[HeadOptions],
) -> LogpLseEntropy:
    """With both."""


@overload
def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    return_lse: bool,
    return_entropy: bool,
    **options: Unpack[HeadOptions],
) -> LogpResult:
    """With what the flags say."""


def linear_logp(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    *,
    bias: Tensor | None = None,
    temperature: float | Tensor | None = None,
    contract: Literal["auto", "fma", "tc16"] = "auto",
    memory: int | Literal["auto", "save", "recompute"] = "auto",
    grad_weight_accumulator: Tensor | None = None,
    rows: Tensor | None = None,
    out: Tensor | None = None,
    precision: Literal["fp64"] | None = None,
    return_lse: bool = False,
    return_entropy: bool = False,
    ignore_index: int | None = None,
    on_invalid: Literal["zero", "nan", "raise"] = "zero",
    vocab_size: int | None = None,
    backend: str | None = None,
    group=None,
) -> LogpResult:
    """Log-probabilities of ``targets`` under ``hidden @ weight.T + bias``; the logits are never stored.

    Determinism level: cross_device (``src/order/dot.h`` and ``row.h``, docs/contract.md). Contract
    ``fma.v1+row.v1`` or ``fma64.v1+row64.v1``. Equal, bit for bit, to :func:`logp` of the unfused product.

    Args:
        hidden: ``[..., H]`` float32 or float64, any strides.
        weight: ``[V, H]`` of the same dtype, any strides.
        targets: ``[...]`` int32 or int64.
        bias: ``[V]`` of the same dtype, or None.
        temperature: as in :func:`logp`, and so the options below that are not named here.
        contract: as in :func:`matmul`.
        memory: bytes that may be kept for backward; cannot change a bit. Without effect until gradients
            exist.
        grad_weight_accumulator: refused until gradients exist.
        rows: as in :func:`logp`; only rows that take part are computed.
        out: as in :func:`logp`.
        precision: as in :func:`logp`.
        return_lse: as in :func:`logp`.
        return_entropy: as in :func:`logp`.
        ignore_index: as in :func:`logp`.
        on_invalid: as in :func:`logp`.
        vocab_size: as in :func:`logp`.
        backend: as in :func:`logp`.
        group: tensor-parallel process group; refused until it exists.

    Returns:
        As :func:`logp`.

    Raises:
        ValueError, TypeError, RuntimeError: as :func:`logp` and :func:`matmul`.
        NotDifferentiableError: an operand requires grad; gradients come with the fused LM head.
    """
    if group is not None:
        raise NotImplementedError("group: tensor parallelism does not exist yet; may be None")
    if grad_weight_accumulator is not None:
        raise NotDifferentiableError(
            "grad_weight_accumulator: gradients of linear_logp come with the feature "
            '"the fused LM head"; may be None'
        )
    if memory not in ("auto", "save", "recompute") and (
        isinstance(memory, bool) or not isinstance(memory, int)
    ):
        raise ValueError(f"memory: is {memory!r}; may be 'auto', 'save', 'recompute' or a number of bytes")
    check_contract(contract)
    check_options(ignore_index, on_invalid, vocab_size, backend)
    _check_linear_logp(hidden, weight, targets, bias)
    number, row_temperature = split_temperature(temperature, targets)
    _checks.row_lists(row_temperature, rows, hidden, "hidden")
    operands = (hidden, weight) if bias is None else (hidden, weight, bias)
    _refuse_gradients(("hidden", "weight", "bias")[: len(operands)], *operands)
    if out is not None:
        check_logp_out(out, hidden, targets, row_temperature, rows, precision)
        for argument, value in (("weight", weight), ("bias", bias)):
            _checks.out(out, targets, out.dtype, ((argument, value),))
    try:
        logp, lse, entropy = _linear_logp(
            hidden, weight, targets, bias, return_lse, return_entropy, contract, row_temperature, rows,
            number, ignore_index, on_invalid, vocab_size, is_binary64(precision), backend or "auto",
        )  # fmt: skip
    except Exception as error:
        raise_clearly(error, _check_linear_logp, hidden, weight, targets, bias)
    values = logp if out is None else write_out(out, logp, rows)
    return pack(values, lse, entropy, return_lse, return_entropy)


def _refuse_gradients(names: tuple[str, ...], *operands) -> None:
    """Raise when a derivative of the result could be asked for: never a silent detach."""
    if not torch.is_grad_enabled() and not _torch_private.tangents_active():
        return
    for argument, value in zip(names, operands, strict=True):
        if isinstance(value, Tensor) and (value.requires_grad or _torch_private.tangents_active()):
            raise NotDifferentiableError(
                f"linear_logp: {argument} requires grad, and gradients of linear_logp come with the feature "
                f'"the fused LM head"; until then call it under torch.no_grad(), pass {argument}.detach(), '
                "or use logp(linear(hidden, weight, bias), targets)"
            )


def _check_linear_logp(hidden, weight, targets, bias) -> None:
    operands = (hidden, weight) if bias is None else (hidden, weight, bias)
    _checks.products(("hidden", "weight", "bias")[: len(operands)], *operands)
    _checks.tensor("targets", targets)
    _checks.device("targets", targets, hidden, "hidden")
    _checks.dtype("targets", targets, _checks.INTEGER)
    if weight.dim() != 2 or weight.shape[0] == 0:
        raise ValueError(f"weight: has shape {list(weight.shape)}; must be [V, H] with at least one row")
    if hidden.dim() == 0 or hidden.shape[-1] != weight.shape[1]:
        hint = ""
        if hidden.dim() and hidden.shape[-1] == weight.shape[0]:
            hint = "; hidden looks like logits: samebits.logp(logits, targets) takes those"
        raise ValueError(
            f"hidden: has shape {list(hidden.shape)}; must be [..., {weight.shape[1]}], for weight is "
            f"{list(weight.shape)}{hint}"
        )
    _checks.leading(targets, hidden, "hidden")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias: has shape {list(bias.shape)}; must be [{weight.shape[0]}], the rows of weight"
        )
