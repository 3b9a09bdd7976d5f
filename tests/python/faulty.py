"""Candidates for the check of operators: right ones, and ones with a fault planted in them."""

import torch
from torch import Tensor
from torch.nn import functional

import samebits


def logp(logits: Tensor, targets: Tensor) -> Tensor:
    """The library's, by its name in a module."""
    return samebits.logp(logits, targets)


def all_outputs(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """A dict of results, in any order."""
    found = samebits.logp(logits, targets, return_lse=True, return_entropy=True)
    return {"entropy": found.entropy, "lse": found.lse, "logp": found.logp}


def perturbed(logits: Tensor, targets: Tensor) -> Tensor:
    """Off by a hundred-thousandth where the target is even."""
    return samebits.logp(logits, targets) + 1e-5 * (targets % 2 == 0)


class _WrongSlope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 + 2.0**-14)


def wrong_slope(logits: Tensor, targets: Tensor) -> Tensor:
    """Right values, with a gradient that is off by a relative 6e-5."""
    return samebits.logp(_WrongSlope.apply(logits), targets)


def _one_by_one(addends: list[Tensor]) -> Tensor:
    total = addends[0]
    for addend in addends[1:]:
        total = total + addend
    return total


def batch_dependent(logits: Tensor, targets: Tensor) -> Tensor:
    """Sums a row of a large batch in more pieces than one of a small batch."""
    x = logits - logits.detach().amax(-1, keepdim=True)
    total = _one_by_one([piece.exp().sum(-1) for piece in x.chunk(50 if len(x) > 4 else 1, -1)])
    return x.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - total.log()


_calls = 0


def not_repeatable(logits: Tensor, targets: Tensor) -> Tensor:
    """One ulp more at every other call."""
    global _calls
    _calls += 1
    value = samebits.logp(logits, targets)
    return torch.nextafter(value, torch.zeros_like(value)) if _calls % 2 else value


def graph_dependent(logits: Tensor, targets: Tensor) -> Tensor:
    """Other bits where a graph is recorded."""
    value = samebits.logp(logits, targets)
    return value * (1 + 2.0**-23) if logits.requires_grad else value


def order_dependent_sum(values: Tensor, mask: Tensor) -> Tensor:
    """One float32 after the other."""
    return _one_by_one(list(torch.where(mask, values, 0.0)))


def bf16_sums(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T`` with a bfloat16 accumulator."""
    total = torch.zeros(len(x), len(weight), dtype=torch.bfloat16)
    for k in range(x.shape[1]):
        total = total + (x[:, k : k + 1].float() * weight[:, k].float()).bfloat16()
    return total


def bf16_head(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """A head whose logits are summed in bfloat16."""
    logits = bf16_sums(hidden, weight).float()
    return logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def no_gradient(logits: Tensor, targets: Tensor) -> Tensor:
    """Detached."""
    return samebits.logp(logits.detach(), targets)


def raises(logits: Tensor, targets: Tensor) -> Tensor:
    """Does not take what it is given."""
    raise NotImplementedError("this kernel wants a tile of 64 rows")


def wrong_shape(logits: Tensor, targets: Tensor) -> Tensor:
    """A mean where rows are wanted."""
    return samebits.logp(logits, targets).mean()


def wrong_name(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """A result nobody knows."""
    return {"loss": functional.cross_entropy(logits, targets)}


def wrong_kind(logits: Tensor, targets: Tensor) -> list[float]:
    """No tensor."""
    return samebits.logp(logits, targets).tolist()


not_a_function = 7
