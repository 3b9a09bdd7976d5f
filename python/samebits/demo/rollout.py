"""The rollout engine's side: tokens are sampled one at a time, and their log-probs recorded on the way."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from samebits.demo.heads import Head


class Policy(Protocol):
    """What the engine needs of a model: everything below the LM head, and the LM head's weight."""

    head_weight: Tensor  # [vocab, hidden]
    threads: int  # that the engine runs on; the trainer uses all that torch has

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


def requests(waves: list[int], max_new: int, generator) -> list[list[int]]:
    """For each wave of so many sequences, how many tokens each of them will have: max_new / 2 to max_new."""
    return [torch.randint(max_new // 2, max_new + 1, (wave,), generator=generator).tolist() for wave in waves]


@torch.inference_mode()
def sample(policy: Policy, heads: list[Head], wanted: list[list[int]], draw, generator, tick) -> Rollout:
    """Serves the waves in turn; the live batch shrinks as sequences end. `draw` picks each row's token."""
    sequences: list[list[tuple]] = []  # of each sequence: (hidden, token, {head: logp}) of each step
    for lengths in wanted:
        prompts = policy.prompts(len(lengths), generator)
        wave: list[list[tuple]] = [[] for _ in lengths]
        hidden, state = policy.advance(prompts, None)
        for step in range(max(lengths)):
            live = [row for row, length in enumerate(lengths) if step < length]
            read = hidden[live]
            tokens = draw(read)
            scores = {head.name: head.rollout_logp(read, tokens) for head in heads}
            for at, row in enumerate(live):
                wave[row].append((read[at], tokens[at], {name: logp[at] for name, logp in scores.items()}))
            tick(len(live))
            following = torch.zeros(len(lengths), dtype=torch.int64)
            following[live] = tokens
            if step + 1 < max(lengths):
                hidden, state = policy.advance(following[:, None], state)
        sequences += wave
    longest = max(range(len(wave)), key=lambda row: len(wave[row]))
    response = [int(token) for _, token, _ in wave[longest]]
    steps = [step for sequence in sequences for step in sequence]
    return Rollout(
        hidden=torch.stack([hidden for hidden, _, _ in steps]),
        targets=torch.stack([token for _, token, _ in steps]),
        lengths=[len(sequence) for sequence in sequences],
        logp={head.name: torch.stack([logp[head.name] for _, _, logp in steps]) for head in heads},
        example=(policy.decode(prompts[longest].tolist()), policy.decode(response)),
    )
