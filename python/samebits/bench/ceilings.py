"""What no implementation can beat on this machine, measured in the same run: reads, copies, bare products."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def reads(tensor: Tensor) -> list[Callable[[], Any]]:
    """Ways to read every byte of a contiguous tensor once."""
    words = tensor.view(-1).view(torch.int32 if tensor.nbytes % 4 == 0 else torch.int16)
    found: list[Callable[[], Any]] = [lambda: torch.amax(words)]
    if words.dtype == torch.int32:
        found.append(lambda: torch.sum(words, dtype=torch.int32))
        if tensor.is_cuda:
            try:
                from .reader import Reader
            except ImportError:
                pass  # without triton torch's own reductions have to do
            else:
                found.append(Reader(tensor))
    return found


def copies(tensor: Tensor) -> list[Callable[[], Any]]:
    """One read and one write, into one buffer again and again."""
    buffer = torch.empty_like(tensor)
    return [lambda: buffer.copy_(tensor)]


def fills(tensor: Tensor) -> list[Callable[[], Any]]:
    """One write of as many bytes, into one buffer again and again."""
    buffer = torch.empty_like(tensor)
    return [lambda: buffer.zero_()]


def bare_product(a: Tensor, b: Tensor, out: Tensor) -> list[Callable[[], Any]]:
    """The library's own matrix product, into one buffer again and again."""
    return [lambda: torch.mm(a, b, out=out)]


def products(hidden: Tensor, weight: Tensor, backward: bool) -> dict[str, list[Callable[[], Any]]]:
    """The products of a linear layer ``hidden [T, H] @ weight [V, H].T``: its own, and those of backward."""
    result = torch.empty(hidden.shape[0], weight.shape[0], device=hidden.device, dtype=hidden.dtype)
    found = {"product": bare_product(hidden, weight.t(), result)}
    if backward:
        upstream = torch.randn_like(result)
        found["grad_hidden"] = bare_product(upstream, weight, torch.empty_like(hidden))
        found["grad_weight"] = bare_product(upstream.t(), hidden, torch.empty_like(weight))
    return found
