"""Options of a call: what each may be. The calls and :func:`samebits.plan` ask here alike."""

from __future__ import annotations

from numbers import Real

import torch
from torch import Tensor

from . import _checks, _torch_private


def split_temperature(temperature, targets: Tensor) -> tuple[float, Tensor | None]:
    """A temperature as (scalar, None) or (1.0, one value per row in the shape of the targets)."""
    if temperature is None:
        return 1.0, None
    if isinstance(temperature, Tensor):
        _checks.tensor("temperature", temperature)
        if _torch_private.has_derivative(temperature):
            raise ValueError(
                "temperature: requires grad or has a tangent; a temperature is a constant, "
                "pass temperature.detach()"
            )
        _checks.dtype("temperature", temperature, (torch.float32, torch.float64))
        shape, wanted = temperature.shape, targets.shape
        if len(shape) == 0 or shape == wanted:
            return 1.0, temperature.expand(wanted)
        if len(shape) == len(wanted) and all(a in (1, b) for a, b in zip(shape, wanted, strict=True)):
            return 1.0, temperature.expand(wanted)
        raise ValueError(
            f"temperature: has shape {list(shape)}; may be a number, or a tensor of shape {list(wanted)} "
            "in which any extent may be 1"
        )
    if isinstance(temperature, bool) or not isinstance(temperature, Real | torch.SymFloat | torch.SymInt):
        raise TypeError(f"temperature: is a {type(temperature).__name__}; may be a number or a tensor")
    try:
        return (temperature if type(temperature) is float else float(temperature)), None
    except OverflowError:
        raise ValueError("temperature: is beyond float64; must be within [2^-64, 2^64]") from None


def result_dtype(values: torch.Tensor, binary64: bool) -> torch.dtype:
    """float64 where the values are or it was asked for, else float32."""
    return torch.float64 if binary64 or values.dtype == torch.float64 else torch.float32


def is_binary64(precision) -> bool:
    """Whether float64 was asked for by name."""
    if precision is None:
        return False
    if precision == "fp64":
        return True
    raise ValueError(f"precision: is {precision!r}; may be None (by the dtype of the logits) or 'fp64'")


def check_semantics(ignore_index, on_invalid, vocab_size) -> None:
    """Types of what says which ids count; values are checked by the native library."""
    for argument, value in (("ignore_index", ignore_index), ("vocab_size", vocab_size)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | torch.SymInt)):
            raise TypeError(f"{argument}: is a {type(value).__name__}; may be an int or None")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ValueError(f"{argument}: is {value}; must fit into 64 bits")
    if on_invalid not in ("zero", "nan", "raise"):
        raise ValueError(f"on_invalid: is {on_invalid!r}; may be 'zero', 'nan' or 'raise'")


def backend_name(backend) -> str:
    """A backend as the native library takes it, which knows the names."""
    if not isinstance(backend, str | None):
        raise TypeError(
            f"backend: is a {type(backend).__name__}; may be a name from samebits.backends() or None"
        )
    return "auto" if backend is None else backend


def check_contract(contract) -> None:
    """A name that some contract has."""
    if contract not in ("auto", "fma", "tc16"):
        raise ValueError(f"contract: is {contract!r}; may be 'auto', 'fma' or 'tc16'")


def check_out_dtype(out_dtype, operands: torch.dtype) -> None:
    """A dtype that a product of operands of that dtype can have."""
    half = operands in (torch.bfloat16, torch.float16)
    if out_dtype not in (None, operands) and not (half and out_dtype == torch.float32):
        found = _checks.name(out_dtype) if isinstance(out_dtype, torch.dtype) else repr(out_dtype)
        wide = " or float32" if half else ""
        raise TypeError(f"out_dtype: is {found}; may be {_checks.name(operands)}{wide}")


def padding_row(padding_idx, vocab: int | None) -> int | None:
    """The row that `padding_idx` means in a table of `vocab` rows; itself where that is not known."""
    if padding_idx is None:
        return None
    if isinstance(padding_idx, bool) or not isinstance(padding_idx, int):
        raise TypeError(f"padding_idx: is a {type(padding_idx).__name__}; must be an int or None")
    if vocab is None:
        return padding_idx
    if not -vocab <= padding_idx < vocab:
        raise ValueError(f"padding_idx: is {padding_idx}; may be {-vocab} to {vocab - 1}")
    return padding_idx % vocab
