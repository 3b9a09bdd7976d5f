"""Exact derivatives of logp, lse and entropy, from arithmetic on jets; and the sum of the sizes of their
terms.

With directions v_1 .. v_m the jet of a function is its value for each subset S of them: the mixed derivative
along the directions of S. Bit b of an index stands for v_(b+1). Jets multiply by summing over the ways to
split S.

The exponentials of the scaled logits along the directions are ``N_S = p * product of v_b over S``, with D_S
their
sum over the row, so that the jet of p = N / D follows from D_empty = 1 without any differentiation rule:

    p_S = N_S - sum over nonempty T in S of D_T p_(S without T).

The same recursion with plus signs and abs(v) gives the sum of the sizes of all terms into which repeated use
of ``p' = p * (v - sum p v)`` expands p_S: `bound`, to which the roundings of any composition of that rule are
proportional. Both take 3^m products of rows; nothing here is shared with samebits.
"""

from typing import NamedTuple

import torch
from torch import Tensor

OUTPUTS = ("logp", "lse", "entropy")


class Jets(NamedTuple):
    """Gradients with respect to the logits, ``[2^m, rows, vocab]``: their derivatives, and the size of the
    terms."""

    gradient: Tensor
    bound: Tensor


def gradient_jets(output: str, z: Tensor, z_size: Tensor, targets: Tensor, directions: list[Tensor]) -> Jets:
    """Of ``output`` with respect to the scaled logits.

    `z` is float64 ``[rows, vocab]``, shifted by its maximum, and `z_size` what its roundings are proportional
    to; every id is in the vocabulary.
    """
    p = z.exp() / z.exp().sum(-1, keepdim=True)
    exact = _gradient(output, p, z, targets, directions, -1.0)
    bound = _gradient(output, p, z_size, targets, [v.abs() for v in directions], 1.0)
    return Jets(exact, bound)


def _gradient(output, p, z, targets, directions, sign) -> Tensor:
    jet = _softmax_jet(p, directions, sign)
    if output == "lse":
        return jet
    if output == "logp":
        gradient = sign * jet
        gradient[0] += torch.nn.functional.one_hot(targets, p.shape[-1])
        return gradient
    weighted = jet * z  # the jet of p * z
    for at in range(1, len(jet)):
        for bit, direction in enumerate(directions):
            if at >> bit & 1:
                weighted[at] += jet[at ^ (1 << bit)] * direction
    mean = weighted.sum(-1)
    gradient = torch.empty_like(jet)
    for at in range(len(jet)):
        gradient[at] = sign * weighted[at] + _splits(mean, jet, at, [0, *_nonempty_subsets(at)])
    return gradient


def _softmax_jet(p: Tensor, directions: list[Tensor], sign: float) -> Tensor:
    terms = p.unsqueeze(0)
    for direction in directions:
        terms = torch.cat((terms, terms * direction))
    sums, jet = terms.sum(-1), terms.clone()
    for at in range(1, len(jet)):
        jet[at] += sign * _splits(sums, jet, at, _nonempty_subsets(at))
    return jet


def _splits(factor: Tensor, jet: Tensor, at: int, subsets: list[int]) -> Tensor:
    """The sum of ``factor[T] * jet[at without T]`` over the subsets T."""
    taken = torch.tensor(subsets, device=jet.device)
    return torch.einsum("tr,trv->rv", factor[taken], jet[at - taken])


def _nonempty_subsets(of: int) -> list[int]:
    subsets, at = [], of
    while at:
        subsets.append(at)
        at = (at - 1) & of
    return subsets


def torch_outputs(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """The three outputs composed from PyTorch, in the dtype of the logits, differentiable as often as PyTorch
    likes."""
    log_p = logits.log_softmax(-1)
    return {
        "logp": log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1),
        "lse": logits.logsumexp(-1),
        "entropy": -(log_p.exp() * log_p).sum(-1),
    }
