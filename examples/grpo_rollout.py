"""The rollout of examples/grpo.py: sampling, rewards, and log-probs that say where they come from."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

import torch
from grpo_model import WINDOW, Model, windows_of
from torch import Tensor

import samebits as sb

PROMPT, LONGEST, GROUP = 16, 24, 8  # bytes of a prompt and of a completion; completions of a prompt
ENDS = torch.tensor(list(b".\n"))  # a completion ends behind one of these


class StrictError(RuntimeError):
    """A log-prob did not come from samebits, or has not the bits it must have."""


@dataclass(frozen=True)
class LogProbs:
    """Log-probs and where they come from."""

    values: Tensor
    source: str
    provenance: dict | None = None


@dataclass(frozen=True)
class Rollout:
    """Sampled completions; behind the end of one the targets are -100."""

    windows: Tensor  # [B, LONGEST, WINDOW]
    targets: Tensor  # [B, LONGEST]
    old: LogProbs  # [B, LONGEST], recorded while sampling
    advantages: Tensor  # [B]
    reward: float


def score(hidden: Tensor, weight: Tensor, targets: Tensor, memory: int | str = "auto") -> LogProbs:
    """Log-probs by samebits."""
    values = sb.linear_logp(hidden, weight, targets, memory=memory)
    provenance = sb.plan("linear_logp", hidden, weight, targets, memory=memory).provenance
    return LogProbs(values, "samebits.linear_logp", provenance)


def score_by_torch(hidden: Tensor, weight: Tensor, targets: Tensor, memory: int | str = "auto") -> LogProbs:
    """What strict mode refuses: the same log-probs, added in whatever order torch takes for this shape."""
    every = torch.log_softmax((hidden @ weight.T).float(), -1)
    values = every.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return LogProbs(torch.where(targets >= 0, values, 0.0), "torch.log_softmax")


def require_samebits(**logprobs: LogProbs) -> None:
    """Raise unless all of them come from samebits.linear_logp and promise one another's bits."""
    for role, logp in logprobs.items():
        if logp.source != "samebits.linear_logp":
            raise StrictError(f"{role}_logp_source: is {logp.source}; must be samebits.linear_logp")
    first, *others = logprobs.values()
    for other in others:
        sb.require_same(first.provenance, other.provenance)


@torch.no_grad()
def sample(model: Model, prompts: Tensor, noise: Tensor, words: set[str]) -> Rollout:
    """Completions by the Gumbel trick, a byte at a time; the batch shrinks as completions end."""
    batch, device = len(prompts), prompts.device
    tokens = torch.cat([prompts, prompts.new_full((batch, LONGEST), -100)], 1)
    values, head = torch.zeros(batch, LONGEST, device=device), model.head()
    live = torch.arange(batch, device=device)
    for step in range(LONGEST):
        hidden = model.hidden(tokens[live, PROMPT + step - WINDOW : PROMPT + step])
        logits = sb.linear(hidden, head, out_dtype=torch.float32)
        token = (logits + noise[live, step]).argmax(-1)
        scored = score(hidden, head, token)
        tokens[live, PROMPT + step], values[live, step] = token, scored.values
        live = live[~torch.isin(token, ENDS.to(device))]
        if not len(live):
            break
    targets = tokens[:, PROMPT:]
    rewards = torch.tensor([reward(row[row >= 0].tolist(), words) for row in targets], dtype=torch.float64)
    return Rollout(
        windows_of(tokens)[:, PROMPT:], targets, replace(scored, values=values),
        advantages_of(rewards).to(device), rewards.mean().item(),
    )  # fmt: skip


def reward(completion: list[int], words: set[str]) -> float:
    """The share of its bytes that stand in words of the text."""
    found = re.findall("[a-z]+", bytes(completion).decode("latin-1").lower())
    return sum(len(word) for word in found if word in words) / len(completion)


def advantages_of(rewards: Tensor) -> Tensor:
    """Rewards less their group's mean, over its standard deviation."""
    group, count = torch.arange(len(rewards)) // GROUP, len(rewards) // GROUP
    centred = rewards - sb.masked_mean(rewards, segments=group, count=count)[group]
    variance = sb.masked_mean(centred * centred, segments=group, count=count)
    spread = torch.tensor([math.sqrt(v) for v in variance.tolist()], dtype=torch.float64)[group]
    return (centred / (spread + 1e-4)).float()
