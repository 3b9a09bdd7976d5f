"""The trainer's side: the recorded tokens again, batched as trainers batch them, and the bits compared."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from samebits.demo.heads import Head
from samebits.demo.rollout import Rollout
from samebits.demo.threads import torch_threads


@dataclass
class Comparison:
    """One head's log-probs of one trainer pass against those recorded at rollout."""

    head: str
    layout: str
    logp: Tensor  # [tokens] fp32
    differing: int  # log-probs whose 32 bits are not those of the rollout
    ratio_error: Tensor  # [tokens] fp64: |exp(trainer - rollout) - 1|
    worst: float

    @property
    def tokens(self) -> int:
        return self.logp.numel()


Score = Callable[[Tensor, Tensor], Tensor]


def packed(score: Score, rollout: Rollout, generator) -> Tensor:
    return score(rollout.hidden, rollout.targets)


def micro_batches(score: Score, rollout: Rollout, generator) -> Tensor:
    """One sequence each."""
    pieces = zip(rollout.hidden.split(rollout.lengths), rollout.targets.split(rollout.lengths), strict=True)
    return torch.cat([score(hidden, targets) for hidden, targets in pieces])


def shuffled(score: Score, rollout: Rollout, generator) -> Tensor:
    """Micro-batches of 61 tokens in random order."""
    order = torch.randperm(rollout.targets.numel(), generator=generator)
    logp = torch.empty(order.numel())
    for rows in order.split(61):
        logp[rows] = score(rollout.hidden[rows], rollout.targets[rows])
    return logp


def padded(score: Score, rollout: Rollout, generator) -> Tensor:
    """[sequences, longest], 16 sequences at a time; padding is zeros and id 0, and dropped afterwards."""
    hidden, targets = rollout.hidden.split(rollout.lengths), rollout.targets.split(rollout.lengths)
    pieces = []
    for first in range(0, len(hidden), 16):
        pad = torch.nn.utils.rnn.pad_sequence
        rows = slice(first, first + 16)
        logp = score(pad(hidden[rows], batch_first=True), pad(targets[rows], batch_first=True))
        pieces += [row[:length] for row, length in zip(logp, rollout.lengths[rows], strict=True)]
    return torch.cat(pieces)


def one_thread(score: Score, rollout: Rollout, generator) -> Tensor:
    with torch_threads(1):
        return packed(score, rollout, generator)


LAYOUTS = {
    "one packed batch": packed,
    "single sequences": micro_batches,
    "shuffled": shuffled,
    "padded": padded,
    "one thread": one_thread,
}
OWN_FORMULA = "trainer's formula"
PASSES = [*LAYOUTS, OWN_FORMULA]


@torch.inference_mode()
def recompute(head: Head, rollout: Rollout, generator, tick) -> list[Comparison]:
    """All passes of one head."""
    results = []
    for layout in PASSES:
        batch = LAYOUTS.get(layout, packed)
        score = head.trainer_logp if layout == OWN_FORMULA else head.rollout_logp
        results.append(compare(head.name, layout, rollout.logp[head.name], batch(score, rollout, generator)))
        tick()
    return results


def compare(head: str, layout: str, rollout_logp: Tensor, trainer_logp: Tensor) -> Comparison:
    """Raw bits, and the policy ratio that a PPO or GRPO step would start from: 1 if nothing differs."""
    assert (
        rollout_logp.dtype == trainer_logp.dtype == torch.float32 and rollout_logp.shape == trainer_logp.shape
    )
    differing = int((rollout_logp.view(torch.int32) != trainer_logp.view(torch.int32)).sum())
    ratio_error = torch.expm1(trainer_logp.double() - rollout_logp.double()).abs()
    return Comparison(head, layout, trainer_logp, differing, ratio_error, float(ratio_error.max()))
