"""Log-probabilities fused with the LM head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict, overload

import torch
from torch import Tensor

from . import _checks, _head, _memory, _options, _out, _torch_private
from ._curvature import Call, with_selection
from ._errors import raise_clearly
from ._logp import (
    LogpEntropy,
    LogpLse,
    LogpLseEntropy,
    LogpResult,
    pack,
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
    group: None = None,
) -> LogpResult:
    """Log-probabilities of ``targets`` under ``hidden @ weight.T + bias``; the logits are never stored.

    Determinism level: cross_device (``src/order/dot.h``, ``row.h`` and ``p_form.h``, docs/contract.md).
    Contract ``fma.v1+row.v1``, ``fma64.v1+row64.v1`` or, for 16-bit operands, ``tc16.v1+row.v1``. Equal, bit
    for bit, to :func:`logp` of the unfused product in float32. The first-order gradients have bits of their
    own (the P form), which depend on the rows that take part, in their order, alone; higher ones are made of
    :func:`logp` and :func:`linear`.

    Args:
        hidden: ``[..., H]`` float32, float64, bfloat16 or float16, any strides.
        weight: ``[V, H]`` of the same dtype, any strides; V is 1 to 2^22, H to 2^31.
        targets: ``[...]`` int32 or int64.
        bias: ``[V]`` of the same dtype, or None.
        temperature: as in :func:`logp`, and so the options below that are not named here.
        contract: as in :func:`matmul`.
        memory: what may be kept for backward of the probabilities: a number of bytes, ``"auto"`` (4 GiB),
            ``"save"`` (all) or ``"recompute"`` (none), which are kept for the first rows that fit, 2 bytes a
            logit. Cannot change a bit. For bfloat16 under ``tc16`` without ``return_entropy``, on GPUs of
            compute capability 9.0, whose forward kernel writes them (where it takes the shapes: another
            engine computes the logits twice); elsewhere they are recomputed.
        grad_weight_accumulator: ``[V, H]`` float32 buffer (float64 for float64 operands), its last axis
            dense, to which backward adds the gradient of ``weight``, one rounding each; ``weight.grad`` is
            then left alone. A pass that asks for other gradients alone, as
            ``torch.autograd.grad(loss, hidden)``, leaves it alone too. Breaks the graph of torch.compile; not
            under transforms or ``create_graph``.
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
        As :func:`logp`; differentiable to any order with respect to ``hidden``, ``weight`` and ``bias``, in
            reverse and forward mode and under the transforms of ``torch.func``. An operand that does not
            require grad costs no product.

    Raises:
        ValueError, TypeError, RuntimeError: as :func:`logp` and :func:`matmul`.
        NotDifferentiableError: as :func:`logp`; ``grad_weight_accumulator`` under a transform, or a
            derivative of a gradient that went into it.
        NotImplementedError: ``group`` is given.
    """
    _torch_private.refuse_compiled_transform()
    if group is not None:
        raise NotImplementedError("group: tensor parallelism does not exist yet; may be None")
    _memory.check(memory)
    _options.check_contract(contract)
    _options.check_semantics(ignore_index, on_invalid, vocab_size)
    name = _options.backend_name(backend)
    check_linear_logp(hidden, weight, targets, bias)
    number, row_temperature = _options.split_temperature(temperature, targets)
    _checks.row_lists(row_temperature, rows, hidden, "hidden")
    inputs = (("hidden", hidden), ("weight", weight), ("targets", targets), ("bias", bias),
              ("temperature", row_temperature), ("rows", rows))  # fmt: skip
    if grad_weight_accumulator is not None:
        _checks.accumulator("grad_weight_accumulator", grad_weight_accumulator, weight, inputs)
    binary64 = _options.is_binary64(precision)
    options = (number, ignore_index, on_invalid, vocab_size, binary64, name)
    ids, listed = targets, rows
    if out is not None:
        inputs = (*inputs, ("grad_weight_accumulator", grad_weight_accumulator))
        recorded = _torch_private.differentiating(hidden, weight, bias)
        ids = _out.check(out, targets, _options.result_dtype(hidden, binary64), inputs, recorded)
    if rows is not None and _torch_private.transforms_active():
        masked = with_selection(Call(ids, row_temperature, rows, options))
        ids, listed, options = masked.targets, None, masked.options
    try:
        if _torch_private.transforms_active() or _torch_private.differentiating(hidden, weight, bias):
            kept = _memory.saved_rows(memory, hidden, weight, contract, return_entropy, vocab_size)
            head = _head.linear_logp if grad_weight_accumulator is None else _head.accumulating_linear_logp
            logp, lse, entropy = head(
                hidden, weight, bias, ids, row_temperature, listed, return_lse, return_entropy, kept,
                contract, grad_weight_accumulator, options,
            )  # fmt: skip
        else:
            logp, lse, entropy, *_ = _linear_logp(
                hidden, weight, ids, bias, return_lse, return_entropy, False, contract, 0,
                row_temperature, rows, *options,
            )  # fmt: skip
    except Exception as error:
        raise_clearly(error, check_linear_logp, hidden, weight, targets, bias)
    values = logp if out is None else _out.write(out, logp, rows)
    return pack(values, lse, entropy, return_lse, return_entropy)


def check_linear_logp(hidden, weight, targets, bias=None) -> None:
    """Types, dtypes, devices and shapes of a call."""
    operands = (hidden, weight, targets) if bias is None else (hidden, weight, targets, bias)
    _checks.operands(("hidden", "weight", "targets", "bias")[: len(operands)], *operands)
    if weight.dim() != 2 or 0 in weight.shape:
        raise ValueError(
            f"weight: has shape {list(weight.shape)}; must be [V, H] with at least one row and one column"
        )
    if hidden.dim() == 0 or hidden.shape[-1] != weight.shape[1]:
        hint = ""
        if hidden.dim() and hidden.shape[-1] == weight.shape[0]:
            hint = "; hidden looks like logits: samebits.logp(logits, targets) takes those"
        raise ValueError(
            f"hidden: has shape {list(hidden.shape)}; must be [..., {weight.shape[1]}], for weight is "
            f"{list(weight.shape)}{hint}"
        )
    _checks.leading(targets, hidden, "hidden")
    _checks.at_most("weight", weight, weight.shape[1], "columns", 31)
    _checks.at_most("hidden", hidden, targets.numel(), "rows", 36)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias: has shape {list(bias.shape)}; must be [{weight.shape[0]}], the rows of weight"
        )
