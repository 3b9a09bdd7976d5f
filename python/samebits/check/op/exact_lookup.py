"""Lookups of rows, and the sums that are their gradients, in binary64."""

import torch
from torch import Tensor

from samebits.check.op.exact import Part, Parts, Size, pieces


def rows_of(ids: Tensor, weight: Tensor) -> Parts:
    """``weight[ids]``."""
    for at in pieces(len(ids), weight.shape[1]):
        yield Part((at, slice(None)), weight[ids[at]].double(), {})


def of_weight(ids: Tensor, weight: Tensor, upstream: Tensor) -> Parts:
    """The gradient of weight for the upstream ``[ids, columns]``: each row the sum over the positions of its
    id, as the product of a matrix of zeros and ones."""
    upstream = upstream.double()
    squared = upstream.square()
    most = int(torch.bincount(ids).max()) if len(ids) else 1
    for at in pieces(len(weight), max(weight.shape[1], len(ids))):
        rows = torch.arange(at.start, at.stop, device=ids.device).unsqueeze(-1)
        hit = (rows == ids).double()
        spread = Size((hit @ squared).sqrt(), most)
        yield Part((at, slice(None)), hit @ upstream, {"spread": spread})
