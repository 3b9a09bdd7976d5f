"""The deterministic matrix product, differentiable to any order: its gradients are such products again."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from . import _checks, _options, _torch_private
from ._errors import raise_clearly
from ._product import product


def check_matmul(a, b) -> None:
    """Types, dtypes, devices and shapes of a call."""
    _checks.operands(("a", "b"), a, b)
    if a.dim() < 2:
        raise ValueError(f"a: has shape {list(a.shape)}; must have at least 2 dimensions, [..., M, K]")
    if b.dim() != 2:
        raise ValueError(f"b: has shape {list(b.shape)}; must have 2 dimensions, [K, N]")
    if a.shape[-1] != b.shape[0]:
        raise ValueError(
            f"b: has shape {list(b.shape)}; must be [{a.shape[-1]}, N], for a is {list(a.shape)}"
        )
    _checks.at_most("a", a, a.shape[-1], "columns", 36)


def matmul(
    a: Tensor,
    b: Tensor,
    *,
    contract: Literal["auto", "fma", "tc16"] = "auto",
    out_dtype: torch.dtype | None = None,
    backend: str | None = None,
) -> Tensor:
    """The deterministic product ``a @ b``.

    Determinism level: cross_device (``src/order/dot.h`` and ``tc16.h``, docs/contract.md). Each element is a
    chain over ascending k in segments of 8192, so it depends on its row of ``a`` and its column of ``b``
    alone: of fused multiply-adds (``fma.v1``, ``fma64.v1``), or of the group steps of 16 products that a
    Hopper tensor core makes (``tc16.v1``).

    Args:
        a: ``[..., M, K]`` float32, float64, bfloat16 or float16, any strides.
        b: ``[K, N]`` of the same dtype, any strides.
        contract: ``"auto"`` goes by the dtype: fma for float32 and float64, tc16 for 16-bit operands.
            ``"fma"`` takes 16-bit operands too, converted exactly to float32.
        out_dtype: dtype of the result: that of the operands (default) or, for 16-bit ones, float32.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        ``[..., M, N]``. ``K = 0`` gives zeros. Differentiable to any order in both operands: the upstream is
            rounded once to the operands' dtype and multiplied under the same contract.

    Raises:
        ValueError, TypeError: an argument that is not allowed, named in the message.
        RuntimeError: no backend can run the contract, or the result finds no memory: the message says which.
        NotDifferentiableError: as :func:`logp`.
    """
    _options.check_contract(contract)
    check_matmul(a, b)
    return _product(a, b, None, contract, out_dtype, backend)


def _product(a, b, bias, contract, out_dtype, backend) -> Tensor:
    """``a @ b`` plus a bias, operands checked."""
    _torch_private.refuse_compiled_transform()
    _options.check_out_dtype(out_dtype, a.dtype)
    name = _options.backend_name(backend)
    try:
        flat = a if a.dim() == 2 else a.reshape(a.shape[:-1].numel(), a.shape[-1])
        result = product(flat, b, bias, out_dtype, contract, name)
    except Exception as error:
        raise_clearly(error, check_matmul, a, b)
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

    Determinism level: cross_device (``src/order/dot.h``, ``tc16.h``, docs/contract.md). Contracts are those
    of :func:`matmul`. The bias is added with one rounding in float32 (float64 for float64 operands) before
    the rounding to ``out_dtype``.

    Args:
        x: ``[..., K]`` float32, float64, bfloat16 or float16, any strides.
        weight: ``[N, K]`` of the same dtype, any strides.
        bias: ``[N]`` of the same dtype, or None.
        contract: as in :func:`matmul`.
        out_dtype: as in :func:`matmul`.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        ``[..., N]``, differentiable as :func:`matmul` is. The gradient of the bias is the sum of the upstream
            over the rows, in the order of a product with ones.

    Raises:
        ValueError, TypeError, RuntimeError, NotDifferentiableError: as :func:`matmul`.
    """
    operands = (x, weight) if bias is None else (x, weight, bias)
    names = ("x", "weight", "bias")[: len(operands)]
    _options.check_contract(contract)
    _checks.operands(names, *operands)
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"weight: has shape {list(weight.shape)}; must be [N, K] where x is [..., K], "
            f"and x is {list(x.shape)}"
        )
    _checks.at_most("x", x, x.shape[-1], "columns", 36)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(
            f"bias: has shape {list(bias.shape)}; must be [{weight.shape[0]}], the rows of weight"
        )
    rows = x.unsqueeze(0) if x.dim() == 1 else x
    result = _product(rows, weight.t(), bias, contract, out_dtype, backend)
    return result[0] if x.dim() == 1 else result
