"""A batch against the whole: which elements of which rows have other bits."""

from typing import NamedTuple

import torch
from torch import Tensor

from samebits.check.bits import Difference, difference, show
from samebits.check.errors import CheckError
from samebits.check.invariance.batches import PADDING, Batch
from samebits.check.invariance.targets import Target
from samebits.check.invariance.trials import is_shared


class Found(NamedTuple):
    """The first element of a row that differs."""

    row: int
    """Of the whole batch; -1 for a gradient summed over rows."""
    element: str
    """Its index in the row, or in the gradient."""
    left: str
    """Its value and bits in the first batch."""
    right: str
    """In the second one."""


def match(target: Target, name: str, left: Tensor, right: Tensor, first: Batch, second: Batch):
    """What both batches hold, row by row: (left, right, rows); None where there is nothing.

    Of a gradient summed over rows: the whole, without rows, if the two sums must agree.

    Raises:
        CheckError: the shapes or dtypes of the two results do not go together.
    """
    if left.dtype != right.dtype or left.shape[1:] != right.shape[1:]:
        raise CheckError(
            f"--target {target.name}: {name} is {left.dtype} {list(left.shape)} in one batch and "
            f"{right.dtype} {list(right.shape)} in another"
        )
    if is_shared(name):
        rows = tuple(row for row in first.rows if row != PADDING)
        same = rows == tuple(row for row in second.rows if row != PADDING)
        padded = len(rows) < max(len(first.rows), len(second.rows))
        return (left, right, None) if same and (not padded or target.padding_id < 0) else None
    places = {row: at for at, row in enumerate(first.rows) if row != PADDING}
    pairs = [(places[row], at, row) for at, row in enumerate(second.rows) if row in places]
    if not pairs:
        return None
    in_left, in_right, rows = (list(each) for each in zip(*pairs, strict=True))
    return left[in_left], right[in_right], rows


def compare(target: Target, name: str, left, right, first: Batch, second: Batch):
    """(Difference, Found or None); None when the batches have nothing in common that must agree."""
    matched = match(target, name, left, right, first, second)
    if matched is None:
        return None
    left, right, rows = matched
    counted = difference(left, right)
    return counted, None if counted.first < 0 else _found(left, right, rows, counted)


def _found(left: Tensor, right: Tensor, rows: list[int] | None, counted: Difference) -> Found:
    index = [int(i) for i in torch.unravel_index(torch.tensor(counted.first), left.shape)]
    row = -1 if rows is None else rows[index[0]]
    place = index if rows is None else index[1:]
    return Found(row, str(place), show(left, counted.first), show(right, counted.first))
