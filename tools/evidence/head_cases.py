"""The heads that evidence is taken from.

Element (row, k) of hidden and (column, k) of weight are hashes, so that any row can be made on its own.
"""

from typing import NamedTuple

import torch

from . import inputs


class Case(NamedTuple):
    """One head. `few` ids are targets; one row in 16 takes no part. `kept`: all statistics are recorded.

    `turned`: only so many rows of weight are hashes; the next ones are these, turned by one, and so on.
    """

    name: str
    seed: int
    dtype: str
    rows: int
    vocab: int
    size: int
    contract: str = "auto"
    entropy: bool = False
    scale: float = 0.125  # of the weight
    few: int = 64
    kept: bool = True
    turned: int = 0

    def matrix(self, stream: str, at: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        """Rows numbered `at` of hidden ("a") or weight ("b")."""
        k = torch.arange(self.size, device=at.device)
        wide = torch.float64 if self.dtype == "float64" else torch.float32
        made = [
            (inputs.normal(inputs.hashed(self.seed, stream, part[:, None], k[None, :]), wide) * scale).to(
                getattr(torch, self.dtype)
            )
            for part in at.split(8192)  # the hashes take far more room than the elements
        ]
        return torch.cat(made)

    def weight(self, at: torch.Tensor) -> torch.Tensor:
        """Rows of the head."""
        if not self.turned:
            return self.matrix("b", at, self.scale)
        numbers, which = (at % self.turned).unique(return_inverse=True)
        made, turns = self.matrix("b", numbers, self.scale), at // self.turned
        weight = torch.empty(len(at), self.size, dtype=made.dtype, device=at.device)
        for turn in turns.unique().tolist():
            rows = (turns == turn).nonzero()[:, 0]
            weight[rows] = made[which[rows]].roll(turn, 1)
        return weight

    def target_ids(self, device: str) -> torch.Tensor:
        """The ids that are targets, ascending."""
        step = self.vocab // self.few
        return torch.arange(self.few, device=device) * step + step // 2

    def choices(self, at: torch.Tensor) -> torch.Tensor:
        """For each row the number of its target among the few, or -1."""
        drawn = inputs.hashed(self.seed, "targets", at, torch.zeros_like(at)) & ((1 << 60) - 1)
        return torch.where(drawn % 16 == 0, -1, (drawn >> 8) % self.few)

    def targets(self, at: torch.Tensor) -> torch.Tensor:
        """Ids of the rows."""
        chosen = self.choices(at)
        return torch.where(chosen < 0, -100, self.target_ids(str(at.device))[chosen.clamp(min=0)])

    def upstreams(self, at: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Of logp, lse and entropy."""
        wide = torch.float64 if self.dtype == "float64" else torch.float32
        made = [
            inputs.normal(inputs.hashed(self.seed, name, at, torch.zeros_like(at)), wide)
            for name in ("logp", "lse", "entropy")
        ]
        return made[0], made[1], made[2] if self.entropy else None


def cases(quick: bool = False) -> list[Case]:
    """Nemotron's head, wide and flat, other dtypes and contracts, more rows than segments."""
    if quick:
        return [
            Case("bfloat16", 1, "bfloat16", 300, 1024, 64, turned=100),
            Case("float32", 2, "float32", 70, 777, 33),
        ]
    return [
        Case("bfloat16_model", 1, "bfloat16", 8192, 131072, 2688, scale=0.03),
        Case("bfloat16_peaked", 2, "bfloat16", 8192, 32832, 512, scale=0.5),
        Case("bfloat16_entropy", 3, "bfloat16", 4096, 32832, 512, entropy=True),
        Case("bfloat16_many_rows", 4, "bfloat16", 65536, 8192, 512, kept=False),
        Case("float16", 5, "float16", 4096, 50257, 768),
        Case("bfloat16_fma", 6, "bfloat16", 1024, 8192, 512, contract="fma"),
        Case("float32", 7, "float32", 1024, 8191, 512),
        Case("float64", 8, "float64", 512, 4096, 256),
        Case("bfloat16_4096_151936", 10, "bfloat16", 8192, 151936, 4096, scale=0.025, turned=2048),
        Case("bfloat16_7168_129280", 11, "bfloat16", 8192, 129280, 7168, scale=0.02, turned=2048),
    ]
