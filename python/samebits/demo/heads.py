"""LM heads to compare: each turns hidden states into log-probs of given tokens, for engine and trainer."""

from typing import Protocol

import torch
from torch import Tensor

import samebits as sb


class Head(Protocol):
    name: str
    own_formula: str  # what `trainer_logp` does differently

    def rollout_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """hidden [..., hidden] and targets [...] -> [...] fp32, as a rollout engine computes it."""

    def trainer_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The same quantity by the other code that trainers use for it."""


class PlainHead:
    """`hidden @ weight.T`, log-softmax, gather: the code that people write, in PyTorch."""

    def __init__(self, weight: Tensor, dtype: torch.dtype, temperature: float):
        short = {torch.float32: "fp32", torch.bfloat16: "bf16"}[dtype]
        self.name = f"PyTorch {short}"
        self.own_formula = "z - logsumexp(z)" if dtype == torch.float32 else "log-softmax left in bf16"
        self.weight, self.temperature = weight.to(dtype), temperature

    def logits(self, hidden: Tensor) -> Tensor:
        return hidden.to(self.weight.dtype) @ self.weight.T

    def draw(self, hidden: Tensor, generator) -> Tensor:
        """One token for each row. Which tokens are drawn is not what this is about: any would do."""
        probabilities = torch.softmax(self.logits(hidden).float() / self.temperature, -1)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]

    def rollout_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(hidden).float() / self.temperature
        return pick(torch.log_softmax(logits, -1), targets)

    def trainer_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """What widely used trainers do to save memory: no fp32 copy of the logits, no full log-softmax."""
        logits = self.logits(hidden) / self.temperature
        if logits.dtype == torch.float32:
            return pick(logits, targets) - torch.logsumexp(logits, -1)
        return pick(torch.log_softmax(logits, -1), targets).float()


class SamebitsHead:
    """The same head through samebits: fused on both sides, or from stored logits, in fp32."""

    name = "samebits fp32"
    own_formula = "logp(matmul(...)), unfused"

    def __init__(self, weight: Tensor, temperature: float):
        self.weight, self.temperature = weight.float(), temperature  # exact for 16-bit weights

    def rollout_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return sb.linear_logp(hidden.float(), self.weight, targets, temperature=self.temperature)

    def trainer_logp(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return sb.logp(sb.matmul(hidden.float(), self.weight.T), targets, temperature=self.temperature)


def pick(values: Tensor, targets: Tensor) -> Tensor:
    return values.gather(-1, targets[..., None])[..., 0]
