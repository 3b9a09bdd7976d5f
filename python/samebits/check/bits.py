"""Raw bits of tensors: how many differ, and how one element looks."""

from typing import NamedTuple

import torch
from torch import Tensor

_WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def words(tensor: Tensor) -> Tensor:
    """The raw bits as integers of the same width, dense."""
    return tensor.detach().contiguous().view(_WORDS[tensor.element_size()])


class Difference(NamedTuple):
    """How two tensors of one shape and dtype compare."""

    elements: int
    differing: int  # elements that differ in any bit
    bits: int  # bits that differ, over all elements
    first: int  # flat index of the first that differs, -1 where none does


def difference(left: Tensor, right: Tensor) -> Difference:
    """Zeros of both signs and every NaN are told apart."""
    changed = (words(left) ^ words(right)).flatten()
    at = changed.nonzero().flatten()
    changed = changed[at]
    width = 8 * changed.element_size()
    count = sum(int(((changed >> bit) & 1).sum()) for bit in range(width)) if len(at) else 0
    return Difference(left.numel(), len(at), count, int(at[0]) if len(at) else -1)


def show(tensor: Tensor, index: int) -> str:
    """One element, by flat index, in digits and as its bits: "1.5 (0x3fc00000)"."""
    element = tensor.flatten()[index : index + 1]
    width = element.element_size()
    return f"{float(element):.9g} (0x{int(words(element)) & (1 << 8 * width) - 1:0{2 * width}x})"
