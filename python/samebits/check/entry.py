"""One result of the check, beside what it is held to."""

from typing import NamedTuple

import torch
from torch import Tensor


class Labels(NamedTuple):
    """What was computed, and how."""

    precision: str
    method: str
    output: str
    form: str


class Entry(NamedTuple):
    """A result; numbers are None where they are infinite or were not measured."""

    precision: str
    method: str
    output: str
    form: str
    order: int
    error: float | None  # largest abs(computed - exact)
    tolerance: float | None  # where that is
    share: float | None  # largest error over tolerance of any element
    largest: float | None  # abs(exact)
    resolution: (
        float | None
    )  # smallest tolerance over abs(exact): the relative error that some element notices
    passed: bool


def compare(labels: Labels, order: int, actual: Tensor, exact: Tensor, tolerance: Tensor) -> Entry:
    """Element by element: nothing may be beyond its tolerance, and what has no terms must be exactly zero."""
    error = (actual.double() - exact).abs().nan_to_num(nan=torch.inf)
    share = torch.where(error == 0, 0.0, error / tolerance)
    at = error.argmax()
    size = exact.abs()
    seen = size > 0
    return Entry(
        *labels,
        order,
        error=_number(error.flatten()[at]),
        tolerance=_number(tolerance.flatten()[at]),
        share=_number(share.max()),
        largest=_number(size.max()),
        resolution=_number((tolerance[seen] / size[seen]).min()) if seen.any() else None,
        passed=bool((error <= tolerance).all()),
    )


def _number(value: Tensor) -> float | None:
    return float(value) if value.isfinite() else None
