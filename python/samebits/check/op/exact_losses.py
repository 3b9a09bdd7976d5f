"""Masked sums and means, and loss terms token by token, in binary64."""

import math

import torch
from torch import Tensor

from samebits.check.op.exact import Parts, Size, whole

LOW = HIGH = 0.2  # of the clipped ratio: the defaults
_SERIES = 30  # terms of exp, which reach below the last bit for arguments up to 3


def masked(values: Tensor, mask: Tensor, mean: bool) -> Parts:
    """The sum, exact before its one rounding, or the mean."""
    total = math.fsum(values[mask].double().tolist())
    return whole(values.new_tensor(total / int(mask.sum()) if mean else total, dtype=torch.float64))


def of_values(mask: Tensor, upstream: Tensor, mean: bool) -> Parts:
    """The gradient of the values."""
    return whole(mask.double() * upstream.double() / (int(mask.sum()) if mean else 1))


class Ratio:
    """exp(logp - old) and what is made of it."""

    def __init__(self, logp: Tensor, old: Tensor, advantages: Tensor | None, upstream: Tensor):
        """Without advantages it is the ratio itself."""
        self.difference = logp.double() - old.double()
        self.ratio, self.upstream = self.difference.exp(), upstream.double()
        self.advantages = None if advantages is None else advantages.double()
        if advantages is not None:
            rewarded = self.advantages >= 0
            self.clipped = torch.where(rewarded, self.ratio > 1 + HIGH, self.ratio < 1 - LOW)
            upper, lower = (torch.full_like(self.ratio, bound) for bound in (1 + HIGH, 1 - LOW))
            self.taken = torch.where(self.clipped, torch.where(rewarded, upper, lower), self.ratio)

    def value(self) -> Parts:
        """The ratio, or minus the advantage times the ratio or its bound."""
        if self.advantages is None:
            return self._moving(self.ratio)
        return self._moving(-self.advantages * self.taken)

    def of_logp(self, sign: int = 1) -> Parts:
        """The gradient of logp; with sign -1 that of old."""
        slope = sign * self.ratio * self.upstream
        if self.advantages is not None:
            slope = torch.where(self.clipped, 0.0, -self.advantages * slope)
        return self._moving(slope)

    def of_advantages(self) -> Parts:
        """The gradient of the advantages."""
        return self._moving(-self.taken * self.upstream)

    def _moving(self, value: Tensor) -> Parts:
        return whole(value, argument=Size((value * self.difference).abs(), 1))


class Divergence:
    """exp(d) - 1 - d, d = reference - logp."""

    def __init__(self, logp: Tensor, reference: Tensor, upstream: Tensor):
        """Nothing is computed yet."""
        self.difference, self.upstream = reference.double() - logp.double(), upstream.double()

    def value(self) -> Parts:
        """By its series, in which nothing of its size cancels; for differences up to 3."""
        total = torch.zeros_like(self.difference)
        for power in range(_SERIES, 1, -1):
            total = total * self.difference + 1 / math.factorial(power)
        slope = self.difference.expm1()
        size = Size((slope * self.difference).abs(), 1)
        return whole(total * self.difference.square(), argument=size)

    def of_logp(self, sign: int = 1) -> Parts:
        """The gradient of logp; with sign -1 that of the reference."""
        value = -sign * self.difference.expm1() * self.upstream
        size = Size((self.difference.exp() * self.difference * self.upstream).abs(), 1)
        return whole(value, argument=size)
