"""The deterministic matrix product, and log-probabilities fused with the LM head. Forward only for now."""

from typing import Literal

import torch
from torch import Tensor

from . import _checks, _torch_private
from ._errors import NotDifferentiableError, raise_clearly
from ._logp import LogpResult, _check_out, check_options, is_binary64, pack, split_temperature, write_out

_matmul = torch.ops.samebits.matmul.default
_linear_logp = torch.ops.samebits.linear_logp_forward.default


def _refuse_gradients(function: str, names: tuple[str, ...], *operands) -> None:
    if not torch.is_grad_enabled() and not _torch_private.tangents_active():
        return
    for argument, value in zip(names, operands, strict=True):
        if isinstance(value, Tensor) and (value.requires_grad or _torch_private.tangents_active()):
            raise NotDifferentiableError(
                f"{function}: {argument} requires grad, and gradients of {function} come with the feature "
                f'"the fused LM head"; until then call it under torch.no_grad() or pass {argument}.detach()'
            )


def _check_contract(contract) -> None:
    if contract not in ("auto", "fma", "tc16"):
        raise ValueError(f"contract: is {contract!r}; may be 'auto', 'fma' or 'tc16'")


def _check_matmul(a, b) -> None:
    _checks.products(("a", "b"), a, b)
    if a.dim() < 2:
        raise ValueError(f"a: has shape {list(a.shape)}; must have at least 2 dimensions, [..., M, K]")
    if b.dim() != 2:
        raise ValueError(f"b: has shape {list(b.shape)}; must have 2 dimensions, [K, N]")
    if a.shape[-1] != b.shape[0]:
        raise ValueError(
            f"b: has shape {list(b.shape)}; must be [{a.shape[-1]}, N], for a is {list(a.shape)}"
        )


def matmul(
    a: Tensor,
    b: Tensor,
    *,
    contract: Literal["auto", "fma", "tc16"] = "auto",
    out_dtype: torch.dtype | None = None,
    backend: str | None = None,
) -> Tensor:
    """The deterministic product ``a @ b``.

    Determinism level: cross_device (``src/order/dot.h``, CONTRACT.md section 3). Contract ``fma.v1`` or
    ``fma64.v1``: each element is a chain of fused multiply-adds over ascending k in segments of 8192, so it
    depends on its row of ``a`` and its column of ``b`` alone.

    Args:
        a: ``[..., M, K]`` float32, float64, bfloat16 or float16, any strides.
        b: ``[K, N]`` of the same dtype, any strides.
        contract: ``"auto"`` goes by the dtype: fma for float32 and float64, tc16 for 16-bit operands, which
            no CPU backend has yet. ``"fma"`` takes 16-bit operands too, converted exactly to float32.
        out_dtype: dtype of the result: that of the operands (default) or, for 16-bit ones, float32.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        ``[..., M, N]``. ``K = 0`` gives zeros.

    Raises:
        ValueError, TypeError: an argument that is not allowed, named in the message.
        RuntimeError: no backend can run the contract (16-bit with ``"auto"`` on a CPU).
        NotDifferentiableError: an operand requires grad; gradients come with the fused LM head.
    """
    _check_contract(contract)
    _check_matmul(a, b)
    _refuse_gradients("matmul", ("a", "b"), a, b)
    if out_dtype is not None and out_dtype not in _checks.FLOATING:
        raise TypeError(f"out_dtype: is {_checks.name(out_dtype)}; may be {_checks.name(a.dtype)} or float32")
    try:
        flat = a if a.dim() == 2 else a.reshape(a.shape[:-1].numel(), a.shape[-1])
        result = _matmul(flat, b, out_dtype, contract, backend or "auto")
    except Exception as error:
        raise_clearly(error, _check_matmul, a, b)
    return result if a.dim() == 2 else result.view(*a.shape[:-1], b.shape[1])


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    contract: Literal["auto", "fma", "tc16"] = "auto",
    out_dtype: torch.dtype | None = None,
    backend: str | None = None,
) -> Tensor:
    """The deterministic ``x @ weight.T + bias``; see :func:`matmul`.

    Determinism level: cross_device (``src/order/dot.h``, CONTRACT.md sections 3 and 4). The bias is added
    with one rounding in float32 (float64 for float64 operands) before the rounding to ``out_dtype``.

    Args:
        x: ``[..., K]`` float32, float64, bfloat16 or float16, any strides.
        weight: ``[N, K]`` of the same dtype, any strides.
        bias: ``[N]`` of the same dtype, or None.
        contract: as in :func:`matmul`.
        out_dtype: as in :func:`matmul`.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        ``[..., N]``.

    Raises:
        ValueError, TypeError, RuntimeError, NotDifferentiableError: as :func:`matmul`.
    """
    names, operands = ("x", "weight"), (x, weight)
    if bias is not None:
        names, operands = (*names, "bias"), (*operands, bias)
    _checks.products(names, *operands)
    _refuse_gradients("linear", names, *operands)
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"weight: has shape {list(weight.shape)}; must be [N, K] where x is [..., K], "
            f"and x is {list(x.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias: has shape {list(bias.shape)}; must be [{weight.shape[0]}], the rows of weight"
        )
    rows = x.unsqueeze(0) if x.dim() == 1 else x
    final = out_dtype or x.dtype
    wide = torch.float32 if bias is not None and x.dtype in (torch.bfloat16, torch.float16) else out_dtype
    result = matmul(rows, weight.t(), contract=contract, out_dtype=wide, backend=backend)
    if bias is not None:
        result = (result + bias.to(result.dtype)).to(final)
    return result[0] if x.dim() == 1 else result


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

    Determinism level: cross_device (``src/order/dot.h`` and ``row.h``, CONTRACT.md section 4). Contract
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
    _check_contract(contract)
    check_options(ignore_index, on_invalid, vocab_size, backend)
    _check_linear_logp(hidden, weight, targets, bias)
    number, row_temperature = split_temperature(temperature, targets)
    _checks.row_lists(row_temperature, rows, hidden, "hidden")
    operands = (hidden, weight) if bias is None else (hidden, weight, bias)
    _refuse_gradients("linear_logp", ("hidden", "weight", "bias")[: len(operands)], *operands)
    if out is not None:
        _check_out(out, hidden, targets, row_temperature, rows, precision)
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


def _check_linear_logp(hidden, weight, targets, bias) -> None:
    names, operands = ("hidden", "weight"), (hidden, weight)
    if bias is not None:
        names, operands = (*names, "bias"), (*operands, bias)
    _checks.products(names, *operands)
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
