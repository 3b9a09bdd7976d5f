"""How far a derivative computed by samebits may be from the exact one: counted, not guessed.

**What is computed.** The first gradient is the fused kernel's, with p from `row.v1`. Everything beyond it is
built of p, ``row_sum`` and elementwise products, sums and differences, by the rule ``p' = p * (v - sum p v)``
alone (`samebits._row_functions`, `samebits._curvature`). Multiplied out, a derivative of order n is a sum of
terms ``+- p_i p_j .. v_i v_j ..``, and forward and reverse mode give the same terms: they multiply the same
local derivatives along the same paths, in another order. A computed derivative is the sum of the same terms,
each times a product of factors (1 + d), one for each rounding on its way, and one for each p in it.

**Bound.** So the error is at most ``bound * relative(n)`` to first order, where `bound` is the sum of the
sizes of the terms (`references`, element by element) and
``relative(n) = (n + 1) * p_error + roundings(n) * u``:

- A term of order n has at most n + 1 factors p.
- p_error is the contract's bound on the relative error of p (docs/contract.md, Accuracy):
  ``1e-6 + 7.4e-8 abs(z - M)``, 2^-29 of it under `row64.v1`. Scaled logits carry two more roundings
  (1 / temperature and the product), which move p by at most ``4 u max abs(z)``.
- roundings(n) ``= (n + 1) R + 10 n + 2^n``. A term passes at most n + 1 row sums of R roundings: 3 in a lane
  and 5 in the tree of a block, one for each doubling of the number of blocks. It has at most 2 n + 1 factors
  to multiply (and the weight). What remains are sums and differences, one or two for each order, and the
  engine's adding up of what several uses of one tensor send back, each order of reverse mode at most doubling
  the uses that a term passes. `test_derivatives_accuracy` counts all of this on the graphs that autograd
  records, and finds less.
- Each order multiplies by 1 / temperature once, rounded itself: 2 n more with a temperature.

**Rounding to the dtype of the logits.** A gradient of 16-bit logits is rounded to 16 bits when it leaves the
arithmetic. Its derivative does not see that rounding (a cast has derivative 1, and directions are exact in 16
bits), so a gradient of any order carries one: half an ulp of its own value. Where a gradient is multiplied by
a direction and summed afterwards, each element brings its half ulp. Pure forward mode rounds nothing to 16
bits.

**Reference.** Jets in binary64 carry errors of the same kind: (n + 1) times the error of their p, and for
each order a row sum and the sum over all splits of a subset. That matters for fp64 alone.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from samebits.check.cases import VOCAB, Case

_UNIT = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.bfloat16: 2.0**-8,
    torch.float16: 2.0**-11,
}
# Half the distance of neighbours below the normal numbers.
_HALF_SUBNORMAL = {torch.bfloat16: 2.0**-134, torch.float16: 2.0**-25}
_SECOND_ORDER = 1.01  # (1 + d)^k - 1 over k d, for all k d here


def roundings(order: int, vocab: int, tempered: bool = False) -> int:
    """Roundings on the way of one term of a derivative of that order."""
    row_sum = 8 + math.ceil(math.log2(max(1, math.ceil(vocab / 128))))
    return (order + 1) * row_sum + 10 * order + 2**order + (2 * order if tempered else 0)


class Tolerance(NamedTuple):
    """What errors of one case are held to."""

    probability: Tensor  # [rows, 1], relative error of samebits' p
    reference: Tensor  # [rows, 1], relative error of the reference's p
    unit: float  # of the arithmetic
    stored: torch.dtype  # of the logits
    tempered: bool

    @staticmethod
    def of(case: Case) -> "Tolerance":
        """From the logits of the case."""
        z = case.logits.double() * case.inverse_temperature()
        span = (z.amax(-1, keepdim=True) - z).amax(-1, keepdim=True)
        unit = _UNIT[torch.float64 if case.precision.wide else torch.float32]
        tempered = case.temperature is not None
        probability = (1e-6 + 7.4e-8 * span) * (2.0**-29 if case.precision.wide else 1.0)
        probability = probability + (4 * unit * z.abs().amax(-1, keepdim=True) if tempered else 0.0)
        # exp of a rounded difference, within two ulp; a row sum; a quotient; the scaled logits.
        reference = _UNIT[torch.float64] * (span + VOCAB + 4 + 4 * z.abs().amax(-1, keepdim=True))
        return Tolerance(probability, reference, unit, case.precision.dtype, tempered)

    def relative(self, order: int, double_sums: int = 0) -> Tensor:
        """``[rows, 1]``: largest error over the sum of the sizes of the terms.

        `double_sums` counts sums over a row that the check itself makes, in float64.
        """
        own = (order + 1) * self.probability + roundings(order, VOCAB, self.tempered) * self.unit
        wide = _UNIT[torch.float64]
        jets = (order + 1) * self.reference + (2**order + order * (VOCAB + 4)) * wide
        return _SECOND_ORDER * (own + jets + double_sums * VOCAB * wide)

    def composed(self, order: int) -> Tensor:
        """``[rows, 1]``: the same for PyTorch's own composition, whose uses of one tensor at most triple."""
        wide = _UNIT[torch.float64]
        jets = (2**order + order * (VOCAB + 4)) * wide
        own = (3**order + order * (2 * VOCAB + 10)) * wide
        return _SECOND_ORDER * (2 * (order + 1) * self.reference + own + jets)

    def gradient(self, order: int, exact: Tensor, bound: Tensor) -> Tensor:
        """For a gradient ``[rows, vocab]`` in the dtype of the logits."""
        return bound * self.relative(order) + self._stored(exact, bound)

    def along(self, order: int, bound: Tensor, double_sums: int) -> Tensor:
        """For a directional derivative ``[rows]`` whose terms have the sizes `bound`."""
        return bound * self.relative(order, double_sums).squeeze(-1)

    def summed(self, direction: Tensor, exact: Tensor, bound: Tensor) -> Tensor:
        """``[rows]``: what is added where a gradient in the dtype of the logits was summed along a
        direction."""
        return (self._stored(exact, bound) * direction.abs()).sum(-1)

    def _stored(self, exact: Tensor, bound: Tensor) -> Tensor:
        if _UNIT[self.stored] <= self.unit:
            return torch.zeros_like(exact)
        # Zero stays zero: rows that take no part have no terms.
        return exact.abs() * _UNIT[self.stored] + (bound > 0) * _HALF_SUBNORMAL[self.stored]
