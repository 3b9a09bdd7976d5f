"""Inputs from integers: the same bits on every device, any row on its own.

Element (row, column) of a case is a hash of (seed, row, column), so rows can be made one by one.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

_MIX = (
    -0x61C8864680B583EB,
    -0x40A7B892E31B1A47,
    -0x6B2FB644ECCEEE15,
)  # SplitMix64's, as signed 64-bit integers
_STREAMS = {
    "logits": 0, "targets": 1, "families": 2, "logp": 3, "lse": 4, "entropy": 5, "direction": 6,
    "a": 7, "b": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One call: its inputs and its options (keywords of samebits.logp)."""

    name: str
    seed: int
    rows: int
    vocab: int
    dtype: str
    adversarial: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the logits."""
        return getattr(torch, self.dtype)

    @property
    def real(self) -> torch.dtype:
        """The dtype of the results."""
        wide = self.dtype == "float64" or self.options.get("precision") == "fp64"
        return torch.float64 if wide else torch.float32


class Batch(NamedTuple):
    """The inputs of some rows of a case."""

    logits: torch.Tensor  # [rows, vocab]
    targets: torch.Tensor  # [rows]
    upstreams: tuple[torch.Tensor, ...]  # of logp, lse and entropy, [rows] each
    direction: torch.Tensor  # in the logits, for derivatives of higher order

    def cpu(self) -> "Batch":
        """The same on the CPU."""
        return Batch(self.logits.cpu(), self.targets.cpu(), tuple(u.cpu() for u in self.upstreams),
                     self.direction.cpu())  # fmt: skip


def shift_right(value: torch.Tensor, by: int) -> torch.Tensor:
    return (value >> by) & ((1 << (64 - by)) - 1)  # a logical shift; torch's is arithmetic


def hashed(seed: int, stream: str, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """64 random bits for each (row, column), in wrapping int64 arithmetic."""
    start = (seed * 16 + _STREAMS[stream]) * 0x9E3779B1 % (1 << 62)
    value = ((rows << 24) + columns + start) * _MIX[0]
    value = (value ^ shift_right(value, 30)) * _MIX[1]
    value = (value ^ shift_right(value, 27)) * _MIX[2]
    return value ^ shift_right(value, 31)


def normal(bits: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Nearly normal, deviation 1.15: a sum of four 16-bit fields, exact in float32."""
    total = sum((bits >> shift) & 0xFFFF for shift in (0, 16, 32, 48)) - 131070
    return total.to(dtype) * 2.0**-15


def _families(case: Case, x: torch.Tensor, bits: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Rows of every kind that has broken a softmax somewhere; about half stay normal, of several scales."""
    family = (hashed(case.seed, "families", rows, torch.zeros_like(rows)) & 0xFF)[:, None] % 24
    columns = torch.arange(case.vocab, device=rows.device)[None, :]
    chosen = (shift_right(hashed(case.seed, "families", rows, torch.ones_like(rows)), 1) % case.vocab)[
        :, None
    ]
    here, infinity = columns == chosen, float("inf")
    tiny = 2.0 ** {"float16": -24, "bfloat16": -133, "float32": -149, "float64": -1074}[case.dtype]
    small = (bits & 15).to(torch.float64) * tiny
    for kind, value in (
        (0, x * 4), (1, x * 4), (2, x * 4), (3, x * 16), (4, x * 16), (5, x * 0.0625),
        (6, torch.full_like(x, 1.5)),  # all equal
        (7, torch.where(bits & 7 < 3, -infinity, x)),  # a mask
        (8, torch.where(here, x, -infinity)),  # one finite logit
        (9, torch.full_like(x, -infinity)),
        (10, torch.where(here, 60000.0, x)),  # one huge logit
        (11, torch.where(here, float("nan"), x)),
        (12, torch.where(here, infinity, x)),
        (13, (columns / 16.0).to(x.dtype).expand_as(x)),  # a ramp
        (14, torch.where(bits & 31 == 0, x * 1024, -x.abs())),  # few above the rest
        (15, small.to(x.dtype)),  # subnormal in the type of the logits
        (16, -(x.abs() + 80)),  # around the cut of e0
    ):  # fmt: skip
        x = torch.where(family == kind, value, x)
    return x


def _logits(case: Case, rows: torch.Tensor) -> torch.Tensor:
    columns = torch.arange(case.vocab, device=rows.device)
    bits = hashed(case.seed, "logits", rows[:, None], columns[None, :])
    wide = torch.float64 if case.dtype == "float64" else torch.float32
    x = normal(bits, wide)
    return (_families(case, x, bits, rows) if case.adversarial else x * 4).to(case.torch_dtype)


def _targets(case: Case, rows: torch.Tensor) -> torch.Tensor:
    """Ids; one row in sixteen has one outside the vocabulary."""
    bits = hashed(case.seed, "targets", rows, torch.zeros_like(rows))
    ids = shift_right(bits, 8) % case.vocab
    outside = torch.where(bits & 16 > 0, -100, case.vocab)
    return torch.where(bits & 15 == 0, outside, ids) if case.adversarial else ids


def _upstream(case: Case, rows: torch.Tensor, name: str) -> torch.Tensor:
    return normal(hashed(case.seed, name, rows, torch.zeros_like(rows)), case.real)


def _direction(case: Case, rows: torch.Tensor) -> torch.Tensor:
    columns = torch.arange(case.vocab, device=rows.device)
    bits = hashed(case.seed, "direction", rows[:, None], columns[None, :])
    return normal(bits, torch.float32).to(case.torch_dtype)


def make(case: Case, rows: torch.Tensor) -> Batch:
    """The inputs of the rows numbered (int64), on the device of that tensor."""
    upstreams = tuple(_upstream(case, rows, name) for name in ("logp", "lse", "entropy"))
    return Batch(_logits(case, rows), _targets(case, rows), upstreams, _direction(case, rows))
