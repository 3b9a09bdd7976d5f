"""Products ``x @ weight.T + bias`` and their gradients in binary64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from samebits.check.op.exact import Part, Parts, Size, pieces, whole


class Products:
    """Exact results for x ``[rows, depth]``, weight ``[columns, depth]``, bias ``[columns]`` or None, and the
    upstream gradient ``[rows, columns]``."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None, upstream: Tensor):
        """Nothing is computed yet."""
        self.x, self.weight, self.bias, self.upstream = x.double(), weight, bias, upstream

    def product(self) -> Iterator[Part]:
        """In parts of some columns."""
        for at in pieces(self.weight.shape[0], max(self.weight.shape[1], len(self.x))):
            weight = self.weight[at].double()
            value = self.x @ weight.t()
            if self.bias is not None:
                value = value + self.bias[at].double()
            yield Part((slice(None), at), value, {"spread": _spread(self.x, weight)})

    def of_x(self) -> Parts:
        """The gradient of x."""
        value, squares = torch.zeros_like(self.x), torch.zeros_like(self.x)
        for at in pieces(self.weight.shape[0], max(self.weight.shape[1], len(self.x))):
            upstream, weight = self.upstream[:, at].double(), self.weight[at].double()
            value += upstream @ weight
            squares += upstream.square() @ weight.square()
        return whole(value, spread=Size(squares.sqrt(), self.weight.shape[0]))

    def of_weight(self) -> Iterator[Part]:
        """The gradient of weight, in parts of some rows."""
        for at in pieces(*self.weight.shape):
            upstream = self.upstream[:, at].double().t()
            yield Part((at, slice(None)), upstream @ self.x, {"spread": _spread(upstream, self.x.t())})

    def of_bias(self) -> Parts:
        """The gradient of the bias."""
        upstream = self.upstream.double()
        return whole(upstream.sum(0), spread=Size(upstream.square().sum(0).sqrt(), len(upstream)))


def transposed(parts: Parts) -> Iterator[Part]:
    """The same results with their two axes exchanged."""
    for part in parts:
        sizes = {name: Size(size.value.t(), size.depth) for name, size in part.sizes.items()}
        yield Part(part.index[::-1], part.value.t(), sizes)


def _spread(left: Tensor, right: Tensor) -> Size:
    return Size((left.square() @ right.square().t()).sqrt(), left.shape[1])
