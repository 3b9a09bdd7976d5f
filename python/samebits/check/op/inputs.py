"""Random inputs of a check: of both signs, as tolerance.json assumes; flat and peaked rows."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from samebits.check.op.exact import pieces

SHARPNESS = (0.5, 1.0, 2.0, 4.0)  # standard deviations of the logits, row after row
FREQUENT = 8  # ids of an embedding that half of the positions share


class Shape(NamedTuple):
    """Sizes of a call, as they are named on the command line."""

    batch: int
    seq: int
    vocab: int
    hidden: int

    @property
    def rows(self) -> int:
        """Tokens."""
        return self.batch * self.seq


class Inputs(NamedTuple):
    """Operands in the order of the call, by name, and the upstream gradient of its first result."""

    operands: dict[str, Tensor]
    upstream: Tensor


class _Draw:
    def __init__(self, shape: Shape, dtype: torch.dtype, device: str, seed: int):
        self.shape, self.dtype, self.device = shape, dtype, device
        self.generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *size: int, scale: float | Tensor = 1.0) -> Tensor:
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        drawn = torch.randn(size, generator=self.generator, device=self.device, dtype=wide)
        return drawn.mul_(scale).to(self.dtype)

    def ids(self, below: int, count: int) -> Tensor:
        return torch.randint(below, (count,), generator=self.generator, device=self.device)

    def sharpness(self) -> Tensor:
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        return torch.tensor(SHARPNESS, dtype=wide, device=self.device)[
            torch.arange(self.shape.rows, device=self.device) % len(SHARPNESS)
        ].unsqueeze(-1)

    def upstream(self) -> Tensor:
        """One for each row, of either sign, exact in every dtype: +-4/8 to 12/8."""
        eighths = self.ids(9, self.shape.rows) + 4
        return (eighths * (2 * self.ids(2, self.shape.rows) - 1)).to(torch.float32) / 8

    def targets(self, likeliest: Tensor) -> Tensor:
        """Any id, and in every other row the likeliest one, as a rollout samples it."""
        even = torch.arange(self.shape.rows, device=self.device) % 2 == 0
        return torch.where(even, likeliest, self.ids(self.shape.vocab, self.shape.rows))


Maker = Callable[[Shape, torch.dtype, str, int], Inputs]


def logits(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Logits and targets."""
    draw = _Draw(shape, dtype, device, seed)
    made = draw.normal(shape.rows, shape.vocab, scale=draw.sharpness())
    return Inputs({"logits": made, "targets": draw.targets(made.argmax(-1))}, draw.upstream())


def head(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Hidden states, the weight of a head and targets."""
    draw = _Draw(shape, dtype, device, seed)
    hidden = draw.normal(shape.rows, shape.hidden, scale=draw.sharpness())
    weight = draw.normal(shape.vocab, shape.hidden, scale=shape.hidden**-0.5)
    targets = draw.targets(_likeliest(hidden, weight))
    return Inputs({"hidden": hidden, "weight": weight, "targets": targets}, draw.upstream())


def product(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """a and b."""
    draw = _Draw(shape, dtype, device, seed)
    a = draw.normal(shape.rows, shape.hidden)
    b = draw.normal(shape.hidden, shape.vocab, scale=shape.hidden**-0.5)
    return Inputs({"a": a, "b": b}, draw.normal(shape.rows, shape.vocab))


def linear(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """x, weight and bias."""
    draw = _Draw(shape, dtype, device, seed)
    x = draw.normal(shape.rows, shape.hidden)
    weight = draw.normal(shape.vocab, shape.hidden, scale=shape.hidden**-0.5)
    operands = {"x": x, "weight": weight, "bias": draw.normal(shape.vocab)}
    return Inputs(operands, draw.normal(shape.rows, shape.vocab))


def lookup(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Ids, half of them few and frequent, and the weight of an embedding."""
    draw = _Draw(shape, dtype, device, seed)
    weight = draw.normal(shape.vocab, shape.hidden)
    even = torch.arange(shape.rows, device=device) % 2 == 0
    few = draw.ids(min(FREQUENT, shape.vocab), shape.rows)
    ids = torch.where(even, few, draw.ids(shape.vocab, shape.rows))
    return Inputs({"ids": ids, "weight": weight}, draw.normal(shape.rows, shape.hidden))


def tokens(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
    """Values, one for each token, and a mask that leaves out a quarter of them."""
    draw = _Draw(shape, dtype, device, seed)
    mask = draw.ids(4, shape.rows) > 0
    mask[0] = True
    return Inputs({"values": draw.normal(shape.rows), "mask": mask}, draw.upstream()[0])


def policies(*names: str) -> Maker:
    """Log-probs under two policies, and with a third name advantages. The differences are near multiples of
    1/64 between -2 and 2, none of which is near a bound of the ratio: there its slope would jump."""

    def make(shape: Shape, dtype: torch.dtype, device: str, seed: int) -> Inputs:
        draw = _Draw(shape, dtype, device, seed)
        first = -2 * draw.normal(shape.rows).abs()
        second = first - (draw.ids(257, shape.rows) - 128).to(dtype) / 64
        operands = dict(zip(names, (first, second, draw.normal(shape.rows)), strict=False))
        return Inputs(operands, draw.upstream())

    return make


def _likeliest(hidden: Tensor, weight: Tensor) -> Tensor:
    best = torch.full((len(hidden),), -torch.inf, dtype=torch.float32, device=hidden.device)
    chosen = torch.zeros(len(hidden), dtype=torch.int64, device=hidden.device)
    for at in pieces(len(weight), max(weight.shape[1], len(hidden))):
        value, index = (hidden.float() @ weight[at].float().t()).max(-1)
        better = value > best
        best, chosen = torch.where(better, value, best), torch.where(better, index + at.start, chosen)
    return chosen
