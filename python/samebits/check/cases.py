"""Inputs of the autodiff check: a few rows of different character, in every precision and form of call."""

from typing import NamedTuple

import torch
from torch import Tensor

import samebits
from samebits.check.references import Jets, gradient_jets

VOCAB = 150  # two blocks of the contract, the second one short
PEAK = 7


class Precision(NamedTuple):
    """The dtype of the logits, and whether float64 arithmetic is asked for by name."""

    name: str
    dtype: torch.dtype
    binary64: bool = False

    @property
    def wide(self) -> bool:
        """Whether the arithmetic is that of row64.v1."""
        return self.binary64 or self.dtype == torch.float64


PRECISIONS = (
    Precision("fp32", torch.float32),
    Precision("bf16", torch.bfloat16),
    Precision("fp16", torch.float16),
    Precision("fp64", torch.float64),
    Precision("bf16 in fp64", torch.bfloat16, True),
)
FORMS = ("dense", "rows", "out", "temperature")


class Inputs(NamedTuple):
    """What all precisions and forms share; seven rows. Directions and weights are exact in every dtype."""

    logits: Tensor  # float64 [rows, vocab], not yet rounded to a precision
    targets: Tensor  # [rows], one of them outside the vocabulary
    weights: Tensor  # float64 [rows], the upstream gradients
    directions: list[Tensor]  # float64 [rows, vocab] each


class Case:
    """One call of samebits.logp as a function of its logits, and what is known of its derivatives."""

    def __init__(self, inputs: Inputs, precision: Precision, form: str, output: str):
        """Nothing is computed yet."""
        self.precision, self.form, self.output = precision, form, output
        self.directions, self.weights = inputs.directions, inputs.weights
        self.logits, self.targets = inputs.logits.to(precision.dtype), inputs.targets
        (rows, self.vocab), device = self.logits.shape, self.logits.device
        self.temperature = torch.linspace(0.7, 1.9, rows, device=device) if form == "temperature" else None
        # In any order, one twice, one out of range; row 0 is left out.
        self.rows = torch.tensor([5, 1, 3, 1, rows, 2, -1], device=device) if form == "rows" else None
        self.participating = (self.targets >= 0) & (self.targets < self.vocab)  # [rows]: has derivatives
        if self.rows is not None:
            self.participating &= torch.tensor([row in (1, 2, 3, 5) for row in range(rows)], device=device)

    def __call__(self, logits: Tensor) -> Tensor:
        """The output times the weights, ``[rows]``; a buffer lives as long as the call, as transforms want
        it."""
        wide = torch.float64 if self.precision.wide else torch.float32
        out = None
        if self.form == "out":
            out = torch.empty(self.targets.shape, dtype=wide, device=logits.device)
        found = samebits.logp(
            logits,
            self.targets,
            temperature=self.temperature,
            rows=self.rows,
            out=out,
            precision="fp64" if self.precision.binary64 else None,
            return_lse=self.output == "lse",
            return_entropy=self.output == "entropy",
        )
        value = found if self.output == "logp" else getattr(found, self.output)
        # Padding has lse -inf: a weight would make a NaN of its zero gradient.
        return torch.where(self.participating, value * self.weights.to(wide), 0.0)

    def inverse_temperature(self) -> Tensor:
        """float64 ``[rows, 1]``."""
        one = torch.ones(len(self.targets), 1, dtype=torch.float64, device=self.logits.device)
        return one if self.temperature is None else one / self.temperature.double().unsqueeze(-1)

    def jets(self, directions: list[Tensor]) -> Jets:
        """Exact gradients of the weighted output with respect to the logits, along every subset of the
        directions, and the sizes of their terms."""
        inverse = self.inverse_temperature()
        scaled = self.logits.double() * inverse
        peak = scaled.amax(-1, keepdim=True)
        z = scaled - peak
        # Scaled logits carry roundings of their own size, which the shift does not make smaller.
        size = z.abs() if self.temperature is None else scaled.abs() + peak.abs()
        ids = self.targets.clamp(0, self.vocab - 1)
        directions = [v * inverse for v in directions]
        exact, bound = gradient_jets(self.output, z, size, ids, directions)
        factor = torch.where(self.participating, self.weights, 0.0).unsqueeze(-1) * inverse
        return Jets(exact * factor, bound * factor.abs())


def few_columns(inputs: Inputs) -> Inputs:
    """The same rows with five columns, for numerical Jacobians."""
    targets = torch.where(inputs.targets < 0, inputs.targets, inputs.targets % 5)
    return Inputs(inputs.logits[:, PEAK - 2 : PEAK + 3].contiguous(), targets, inputs.weights, [])


def make_inputs(count: int, seed: int, device: str) -> Inputs:
    """Logits with one or two large columns, even ones and spread ones, and `count` directions."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    logits = normal(7, VOCAB) * torch.tensor([1.5, 1.5, 1.5, 1.0, 4.0, 1.5, 1.5]).double().unsqueeze(-1)
    logits[[0, 1, 2, 5], PEAK] = torch.tensor([11.0, 11.5, 9.0, 10.0], dtype=torch.float64)
    logits[2, PEAK + 128] = 9.25
    targets = torch.tensor([PEAK, 140, PEAK + 128, 0, 149, 3, -100])
    directions = []
    for _ in range(count):
        direction = (normal(7, VOCAB) * 4).round().clamp(-12, 12) / 8
        # Along directions that leave the likeliest token alone hardly any term cancels, at any order.
        direction[[0, 1, 5], PEAK] = 0.0
        directions.append(direction.to(device))
    weights = torch.tensor([1.0, -0.75, 1.25, 0.5, -1.5, 1.75, 1.0], dtype=torch.float64)
    return Inputs(logits.to(device), targets.to(device), weights.to(device), directions)
