"""A result against the exact one, element by element, beside what its cell allows."""

import math

import torch
from torch import Tensor

from samebits.check.errors import CheckError
from samebits.check.op.exact import Part, Parts
from samebits.contracts import Cell

# Bits of the significand, and the exponent of the smallest subnormal number.
_FORMATS = {
    torch.float64: (53, -1074),
    torch.float32: (24, -149),
    torch.bfloat16: (8, -133),
    torch.float16: (11, -24),
}


def judge(actual: Tensor, parts: Parts, cell: Cell) -> dict:
    """What is found, JSON-ready; numbers are None where they are infinite.

    ``max_abs``, ``max_rel`` (where the exact value is not 0) and ``max_ulp`` (units in the last place of the
    dtype of `actual`) are the largest errors of any element, ``floor`` the largest that rounding the exact
    values to that dtype makes. ``tolerance``, ``share`` (error over tolerance) and ``worst`` are of the
    element with the largest share. Passed: every element is within its tolerance.
    """
    largest = dict.fromkeys(("max_abs", "max_rel", "max_ulp", "floor"), 0.0)
    worst = {"share": -1.0}
    elements = 0
    for part in parts:
        error = (actual[part.index].double() - part.value).abs().nan_to_num(nan=torch.inf)
        allowed = _allowed(part, cell)
        share = torch.where(error == 0, 0.0, error / allowed)
        size = part.value.abs()
        rounding = (part.value.to(actual.dtype).double() - part.value).abs()
        found = {
            "max_abs": error.max(),
            "max_rel": torch.where(size > 0, error / size, 0.0).max(),
            "max_ulp": (error / _ulp(part.value, actual.dtype)).max(),
            "floor": rounding.max(),
        }
        largest = {name: max(value, float(found[name])) for name, value in largest.items()}
        elements += part.value.numel()
        at = int(share.argmax())
        if float(share.flatten()[at]) > worst["share"]:
            worst = _element(part, actual, allowed, share, at)
    return {
        "elements": elements,
        **{name: _finite(value) for name, value in largest.items()},
        "tolerance": worst["tolerance"],
        "share": _finite(worst["share"]),
        "worst": {name: worst[name] for name in ("index", "computed", "exact")},
        "passed": worst["share"] <= 1.0,
    }


def require_form(name: str, output: str, actual: Tensor, shape: torch.Size) -> None:
    """CheckError unless a candidate's result is floating and of that shape."""
    if actual.dtype not in _FORMATS or actual.shape != shape:
        raise CheckError(
            f"--candidate {name}: {output} is {actual.dtype} {list(actual.shape)}; "
            f"must be floating {list(shape)}"
        )


def _allowed(part: Part, cell: Cell) -> Tensor:
    allowed = cell.atol + cell.rtol * part.value.abs()
    for name, size in part.sizes.items():
        coefficient = cell.coefficient(name, size.depth)
        if coefficient:
            allowed = allowed + coefficient * size.value
    return allowed


def _ulp(exact: Tensor, dtype: torch.dtype) -> Tensor:
    significand, least = _FORMATS[dtype]
    exponent = (torch.frexp(exact).exponent - significand).clamp(min=least)
    return torch.ldexp(torch.ones_like(exact), exponent)


def _element(part: Part, actual: Tensor, allowed: Tensor, share: Tensor, at: int) -> dict:
    index = [int(i) for i in torch.unravel_index(torch.tensor(at), part.value.shape)]
    return {
        "share": float(share.flatten()[at]),
        "tolerance": _finite(float(allowed.expand_as(part.value).flatten()[at])),
        "index": [i + (where.start or 0) for i, where in zip(index, part.index, strict=True)],
        "computed": _finite(float(actual[part.index].flatten()[at])),
        "exact": float(part.value.flatten()[at]),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
