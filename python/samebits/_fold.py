"""vmap by folding: a mapped axis becomes one more leading axis, and one call computes all samples.

Rows do not see each other, so the bits are those of the loop.
"""

import torch

_MOST = 7  # leading axes an operator takes beside the vocabulary


def fold(batch_size: int, dim: int | None, tensor: torch.Tensor | None) -> torch.Tensor | None:
    """`tensor` with the mapped axis in front; one that is not mapped is repeated with stride 0."""
    if tensor is None:
        return None
    if dim is None:
        return tensor.unsqueeze(0).expand(batch_size, *tensor.shape)
    return tensor.movedim(dim, 0)


def flat_rows(tensor: torch.Tensor | None, leading: int, trailing: int = 0) -> torch.Tensor | None:
    """`tensor` with its `leading` axes made one where there are too many for an operator."""
    if tensor is None or leading <= _MOST:
        return tensor
    return tensor.reshape(-1, *tensor.shape[tensor.dim() - trailing :])


def shaped(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """`tensor` in `shape`; itself where it has it, for a view cannot be changed in place as an output."""
    return tensor if tensor.shape == shape else tensor.view(shape)
