"""The rollout engine's side: tokens are sampled one at a time, and their log-probs recorded on the way."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from samebits.demo.heads import Head


class Policy(Protocol):
    """What the engine needs of a model: everything below the LM head, and the LM head's weight."""

    head_weight: Tensor  # [vocab, hidden]

    def prompts(self, batch: int, generator) -> Tensor:
        """Token ids to start from, [batch, length]."""

    def advance(self, ids: Tensor, state) -> tuple[Tensor, object]:
        """ids [batch, length] -> what the LM head reads last, [batch, hidden], and the state."""

    def decode(self, ids: list[int]) -> str: ...


@dataclass
class Rollout:
    """Sampled sequences, packed one after the other: what both sides share, and what the engine computed."""

    hidden: Tensor  # [tokens, hidden] fp32: what the LM head read
    targets: Tensor  # [tokens] int64: what was sampled
    lengths: list[int]  # tokens of each sequence
    logp: dict[str, Tensor]  # head's name -> [tokens] fp32, computed at batch size 1, 2, ... as sampling went
    example: tuple[str, str]  # one prompt and what followed it


@torch.inference_mode()
def sample(
    policy: Policy, heads: list[Head], waves: list[int], max_new: int, temperature: float, generator, tick
):
    """Serves requests in waves of so many sequences. Lengths vary, so a wave's live batch shrinks."""
    parts: list[list[tuple]] = []  # per sequence: (hidden, token, {head: logp}) of each step
    example = ("", "")
    for batch in waves:
        prompts = policy.prompts(batch, generator)
        wanted = torch.randint(max_new // 2, max_new + 1, (batch,), generator=generator).tolist()
        sequences: list[list[tuple]] = [[] for _ in range(batch)]
        hidden, state = policy.advance(prompts, None)
        for step in range(max(wanted)):
            live = [row for row in range(batch) if step < wanted[row]]
            read = hidden[live]
            tokens = draw(read, policy.head_weight, temperature, generator)
            scores = {head.name: head.rollout_logp(read, tokens) for head in heads}
            for at, row in enumerate(live):
                sequences[row].append(
                    (read[at], tokens[at], {name: logp[at] for name, logp in scores.items()})
                )
            following = torch.zeros(batch, dtype=torch.int64)
            following[live] = tokens
            tick(len(live))
            if step + 1 < max(wanted):
                hidden, state = policy.advance(following[:, None], state)
        parts.extend(sequences)
        longest = max(range(batch), key=lambda row: wanted[row])
        response = [int(token) for _, token, _ in sequences[longest]]
        example = (policy.decode(prompts[longest].tolist()), policy.decode(response))
    steps = [step for sequence in parts for step in sequence]
    return Rollout(
        hidden=torch.stack([hidden for hidden, _, _ in steps]),
        targets=torch.stack([token for _, token, _ in steps]),
        lengths=[len(sequence) for sequence in parts],
        logp={head.name: torch.stack([logp[head.name] for _, _, logp in steps]) for head in heads},
        example=example,
    )


def draw(hidden: Tensor, weight: Tensor, temperature: float, generator) -> Tensor:
    """One token for each row, by plain PyTorch: which tokens are drawn is not what this is about."""
    probabilities = torch.softmax(hidden @ weight.T / temperature, -1)
    return torch.multinomial(probabilities, 1, generator=generator)[:, 0]
