"""The smallest case that still fails: fewer columns, a shorter sum, fewer rows in either batch."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from samebits.check.invariance.batches import PADDING, Batch, Refused, Rows, compute
from samebits.check.invariance.compare import Found, compare
from samebits.check.invariance.targets import Target
from samebits.check.invariance.trials import is_shared

MOST = 400  # attempts; each is two calls of the target, ever smaller ones
SECONDS = 60.0
TRIES = 3  # repetitions of an attempt at what may fail now and then


@dataclass(frozen=True)
class Failure:
    """Two batches in which one output of one row has different bits."""

    axis: str
    output: str
    first: Batch
    second: Batch
    columns: int
    """Of the vocabulary, or of b."""
    depth: int
    """The hidden size."""
    found: Found


class Shrinker:
    """Makes a failure smaller while it fails."""

    def __init__(self, target: Target, whole: Rows, gradients: bool, tick: Callable):
        self.target, self.whole, self.gradients, self.tick = target, whole, gradients, tick
        self.attempts, self.end = 0, time.monotonic() + SECONDS

    def smallest(self, failure: Failure) -> Failure:
        """The failure when nothing can be left out any more, or when enough has been tried."""
        while True:
            before = failure
            for shorter in (self._columns, self._depth, self._rows):
                failure = shorter(failure)
            if failure == before or self._over():
                return failure

    def _over(self) -> bool:
        return self.attempts >= MOST or time.monotonic() > self.end

    def fails(self, failure: Failure) -> Failure | None:
        """The failure with what differs now, or None where nothing does."""
        whole = self.whole.cropped(failure.columns, failure.depth)
        for _ in range(TRIES if failure.axis == "repeat" else 1):
            if self._over():
                return None
            self.attempts += 1
            self.tick()
            try:
                sides = [
                    compute(self.target, whole, batch, self.gradients)[failure.output]
                    for batch in (failure.first, failure.second)
                ]
            except Refused:
                return None
            compared = compare(self.target, failure.output, *sides, failure.first, failure.second)
            if compared and compared[1]:
                return replace(failure, found=compared[1])
        return None

    def _size(self, failure: Failure, name: str) -> Failure:
        """The least power of two that fails, then whatever fails between it and its half."""
        size = 1
        while size < getattr(failure, name):
            smaller = self.fails(replace(failure, **{name: size}))
            if smaller:
                failure = smaller
                break
            size *= 2
        passing = size // 2
        while getattr(failure, name) - passing > 1:
            middle = (getattr(failure, name) + passing) // 2
            smaller = self.fails(replace(failure, **{name: middle}))
            if smaller:
                failure = smaller
            else:
                passing = middle
        return failure

    def _columns(self, failure: Failure) -> Failure:
        return self._size(failure, "columns")

    def _depth(self, failure: Failure) -> Failure:
        return failure if self.target.kind == "logp" else self._size(failure, "depth")

    def _rows(self, failure: Failure) -> Failure:
        """Runs of rows left out wherever it still fails: half the batch at a time, in the end one by one."""
        for cut in _cuts(failure):
            size = max(len(failure.first.rows), len(failure.second.rows)) // 2
            while size:
                start = 0
                while start < max(len(failure.first.rows), len(failure.second.rows)):
                    shorter = cut(failure, start, size)
                    smaller = self.fails(shorter) if shorter else None
                    failure, start = (smaller, start) if smaller else (failure, start + size)
                size //= 2
        return failure


def _cuts(failure: Failure) -> list[Callable[[Failure, int, int], Failure | None]]:
    """Ways to leave rows out without making another case of it: equal batches stay equal."""
    if failure.first.rows == failure.second.rows:
        return [_from_both]
    if is_shared(failure.output):
        return [_from_both, _padding_from_second]
    return [_from_both, _from_first, _from_second]


def _from_both(failure: Failure, start: int, size: int) -> Failure | None:
    """Without some row numbers, but for the row that fails."""
    numbers = sorted({*failure.first.rows, *failure.second.rows} - {PADDING, failure.found.row})
    left_out = set(numbers[start : start + size])
    if not left_out:
        return None
    sides = [tuple(r for r in b.rows if r not in left_out) for b in (failure.first, failure.second)]
    return _with_rows(failure, *sides)


def _from_first(failure: Failure, start: int, size: int) -> Failure | None:
    return _with_rows(failure, _cut(failure.first, start, size, failure.found.row), failure.second.rows)


def _from_second(failure: Failure, start: int, size: int) -> Failure | None:
    return _with_rows(failure, failure.first.rows, _cut(failure.second, start, size, failure.found.row))


def _padding_from_second(failure: Failure, start: int, size: int) -> Failure | None:
    rows, end = failure.second.rows, start + size
    kept = tuple(row for at, row in enumerate(rows) if row != PADDING or not start <= at < end)
    return _with_rows(failure, failure.first.rows, kept)


def _cut(batch: Batch, start: int, size: int, keep: int) -> tuple[int, ...]:
    """Rows without those in the places from `start`; the last of the row to keep stays."""
    rows, end = batch.rows, start + size
    last = max((at for at, row in enumerate(rows) if row == keep), default=-1)
    if last >= end:
        last = -1
    return tuple(row for at, row in enumerate(rows) if not start <= at < end or at == last)


def _with_rows(failure: Failure, first: tuple[int, ...], second: tuple[int, ...]) -> Failure | None:
    """The failure in other batches; None where nothing was left out, or nothing is left."""
    if (first, second) == (failure.first.rows, failure.second.rows) or not (first and second):
        return None
    sides = [replace(b, rows=r) for b, r in ((failure.first, first), (failure.second, second))]
    return replace(failure, first=sides[0], second=sides[1])
