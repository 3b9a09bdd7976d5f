"""The batches that an audit tries: of rows of the whole batch, whose bits must be those they had there."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from samebits.check.invariance.batches import FILLERS, PADDING, STRIDES, Batch
from samebits.check.invariance.targets import Target, by_row

SIZES = (
    1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 512, 1024, 4096, 8192,
)  # fmt: skip
CHUNKS = (1, 7, 64, 100, 1024)
MOST_CHUNKS = 1024  # calls, beyond which a size of chunks is left out
AXES = (
    "batch size", "position", "packing", "padding", "chunks", "strides", "threads", "other call", "repeat",
)  # fmt: skip


@dataclass(frozen=True)
class Trial:
    """One batch of an audit."""

    axis: str
    what: str
    batch: Batch


def trials(
    target: Target, count: int, threads: list[int], repeats: int, on_cpu: bool, seed: int
) -> list[Trial]:
    """Every trial of a batch of `count` rows, by axis; repeats, which must not be refused, come last."""
    base = Batch(tuple(range(count)), threads=threads[0])
    made = [*_sizes(base), *_positions(base, seed), *_packed(base), *_chunks(base), *_strides(base, target)]
    if on_cpu:
        made += [Trial("threads", f"{n} threads", _with(base, threads=n)) for n in threads[1:]]
    made += [Trial("other call", name, _with(base, other=name)) for name in target.others]
    made += [Trial("repeat", f"repeat {n}", base) for n in range(1, repeats + 1)]
    return made


def _with(base: Batch, rows=None, **changes) -> Batch:
    return Batch(**(vars(base) | changes | ({} if rows is None else {"rows": tuple(rows)})))


def _sizes(base: Batch) -> Iterator[Trial]:
    count = len(base.rows)
    for size in (s for s in SIZES if s < count):
        for first in sorted({0, (count - size) // 2, count - size}):
            rows = range(first, first + size)
            yield Trial("batch size", f"{size} rows from row {first}", _with(base, rows))


def _positions(base: Batch, seed: int) -> Iterator[Trial]:
    count, rows = len(base.rows), list(base.rows)
    for by in sorted({1, 3, count // 2} - {0}):
        yield Trial("position", f"rotated by {by}", _with(base, rows[by % count :] + rows[: by % count]))
    yield Trial("position", "reversed", _with(base, rows[::-1]))
    shuffled = random.Random(seed).sample(rows, count)
    yield Trial("position", "shuffled", _with(base, shuffled))
    for row in sorted({0, count - 1}):
        yield Trial("position", f"row {row} in every place", _with(base, [row] * count))


def _sequences(count: int) -> list[range]:
    """Sequences of 1, 6, 11, .. rows, as a batch of answers has."""
    found, first, length = [], 0, 1
    while first < count:
        found.append(range(first, min(first + length, count)))
        first, length = first + length, length % 40 + 5
    return found


def _packed(base: Batch) -> Iterator[Trial]:
    sequences = _sequences(len(base.rows))
    longest = max(map(len, sequences))
    yield Trial("packing", "last sequence first", _with(base, [r for s in sequences[::-1] for r in s]))
    by_length = sorted(sequences, key=len)
    yield Trial("packing", "shortest sequence first", _with(base, [r for s in by_length for r in s]))
    if len(sequences) > 1:
        for s in (sequences[0], sequences[len(sequences) // 2]):
            yield Trial("packing", f"the sequence of rows {s[0]} to {s[-1]} alone", _with(base, s))
    for filler in FILLERS:
        right = [r for s in sequences for r in (*s, *[PADDING] * (longest - len(s)))]
        left = [r for s in sequences for r in (*[PADDING] * (longest - len(s)), *s)]
        for side, rows in (("right", right), ("left", left)):
            yield Trial("padding", f"on the {side}, {filler}", _with(base, rows, filler=filler))


def _chunks(base: Batch) -> Iterator[Trial]:
    count = len(base.rows)
    for size in (s for s in CHUNKS if s < count <= s * MOST_CHUNKS):
        for first in range(0, count, size):
            rows = range(first, min(first + size, count))
            yield Trial("chunks", f"chunks of {size}, from row {first}", _with(base, rows))


def _strides(base: Batch, target: Target) -> Iterator[Trial]:
    for operand in target.operands:
        for name in STRIDES:
            if operand == "targets" and name in ("rows apart", "transposed"):
                continue  # it has one axis
            yield Trial("strides", f"{operand}: {name}", _with(base, operand=operand, strides=name))


def outputs(target: Target, gradients: bool) -> list[str]:
    """Names of what is compared."""
    floating = [name for name in target.operands if name != "targets"]
    return ["result", *(f"grad_{name}" for name in floating if gradients)]


def is_shared(output: str) -> bool:
    """True of a gradient that is summed over the rows."""
    return output.startswith("grad_") and not by_row(output.removeprefix("grad_"))
