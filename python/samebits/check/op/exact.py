"""References in binary64, made of PyTorch's own operations: nothing here comes from the library.

A reference gives its results in parts, so that a gradient ``[131072, 2688]`` needs no binary64 copy of it.
With each part come the sizes that tolerances are multiplied by (docs/tolerance.md): "spread" is the root of
the sum of the squares of what is added up.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

PART = 1 << 21  # elements of one binary64 tensor: 16 MiB, which allocators keep for the next one


class Size(NamedTuple):
    """What a term of a tolerance is multiplied by."""

    value: Tensor
    """Of the shape of the part, or one that broadcasts to it."""
    depth: int
    """Addends of the sum that its coefficient speaks of."""


class Part(NamedTuple):
    """A part of an exact result."""

    index: tuple[slice, ...]
    """Where it is in the result."""
    value: Tensor
    """float64."""
    sizes: dict[str, Size]


Parts = Iterable[Part]
"""Together they cover a result once."""


def whole(value: Tensor, **sizes: Size) -> list[Part]:
    """A result in one part."""
    return [Part((slice(None),) * value.dim(), value, sizes)]


def pieces(length: int, width: int) -> Iterator[slice]:
    """Slices of `length` rows of `width` elements, each of at most PART elements."""
    step = max(1, PART // max(1, width))
    return (slice(at, min(at + step, length)) for at in range(0, length, step))


def tree_sum(x: Tensor) -> Tensor:
    """Over the last axis, in pairs: an addend passes one rounding for each doubling of their number."""
    while x.shape[-1] > 1:
        half = (x.shape[-1] + 1) // 2
        x = torch.cat((x[..., : x.shape[-1] - half] + x[..., half:], x[..., x.shape[-1] - half : half]), -1)
    return x.squeeze(-1)
