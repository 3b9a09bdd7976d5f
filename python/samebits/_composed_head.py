"""The unfused head, for derivatives of linear_logp beyond the first: products and the functions on logits.

With x the logits, v the change of x along a direction in (hidden, weight, bias), dx the gradient with respect
to x and C its change along v (`_curvature`), the gradients change by

    hidden: C @ weight + dx @ d_weight,    weight: C.T @ hidden + dx.T @ d_hidden,    bias: the sum of C.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ._autograd import LogpGradient
from ._curvature import Call, curvature, dense_options, participating, with_selection
from ._product import product


class HeadCall(NamedTuple):
    """What a call computes on, apart from its three operands; `options` ends the operators' arguments."""

    targets: Tensor
    row_temperature: Tensor | None
    rows: Tensor | None
    contract: str
    options: tuple


class Composed:
    """The unfused head, for derivatives beyond the first: operands without padding, and the logits."""

    def __init__(self, hidden, weight, bias, call: HeadCall):
        """Rows that take no part are made zero, so that nothing they hold can reach a product."""
        vocab_size = call.options[3]
        selected = with_selection(Call(call.targets, call.row_temperature, call.rows, call.options))
        self.columns = weight.shape[0]
        self.vocab = self.columns if vocab_size is None else vocab_size
        self.mask = participating(selected, self.vocab)
        self.contract, self.backend = call.contract, call.options[-1]
        self.shape, self.dtype = hidden.shape, hidden.dtype
        self.hidden, self.weight = self._rows(hidden), self._columns(weight)
        self.call = Call(selected.targets, selected.row_temperature, None, dense_options(selected.options))
        x = self._wide(self.hidden, self.weight.t(), None if bias is None else self._columns(bias))
        self.logits = x.view(*self.shape[:-1], self.vocab)

    def _rows(self, values):
        nothing = torch.zeros((), dtype=values.dtype, device=values.device)
        return torch.where(self.mask, values, nothing).reshape(-1, values.shape[-1])

    def _columns(self, values):
        return values if self.vocab == self.columns else values.narrow(0, 0, self.vocab)

    def _wide(self, a, b, bias=None):
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        return product(a, b, bias, wide, self.contract, self.backend)

    def _narrow(self, a, b):
        return product(a, b, None, None, self.contract, self.backend)

    def moved(self, to_hidden, to_weight, to_bias):
        """The change of the logits along a direction in the operands; None for no direction."""
        parts = []
        if to_hidden is not None:
            parts.append(self._wide(self._rows(to_hidden), self.weight.t()))
        if to_weight is not None:
            parts.append(self._wide(self.hidden, self._columns(to_weight).t()))
        if to_bias is not None:
            parts.append(self._columns(to_bias).to(self.logits.dtype).expand(self.hidden.shape[0], -1))
        if not parts:
            return None
        return sum(parts[1:], parts[0]).view(self.logits.shape)

    def change(self, statistics, upstream, directions, tangents, wanted):
        """The change of the wanted gradients along `directions` of operands and `tangents` of upstreams."""
        to_hidden, to_weight, _ = directions
        moved = self.moved(*directions)
        bent = None if moved is None else curvature(self.logits, statistics, upstream, self.call, moved)
        if any(t is not None for t in tangents):
            linear = self._gradient(statistics, tangents)
            bent = linear if bent is None else bent + linear
        fixed = (to_weight is not None and wanted[0]) or (to_hidden is not None and wanted[1])
        dx = self._flat(self._gradient(statistics, upstream)) if fixed else None
        bent = None if bent is None else self._flat(bent)
        results = [None, None, None]
        if wanted[0]:
            parts = [] if bent is None else [self._narrow(bent, self.weight)]
            if to_weight is not None:
                parts.append(self._narrow(dx, self._columns(to_weight)))
            results[0] = sum(parts[1:], parts[0]).view(self.shape) if parts else None
        if wanted[1]:
            parts = [] if bent is None else [self._narrow(bent.t(), self.hidden)]
            if to_hidden is not None:
                parts.append(self._narrow(dx.t(), self._rows(to_hidden)))
            results[1] = self._padded(sum(parts[1:], parts[0])) if parts else None
        if wanted[2] and bent is not None:
            ones = torch.ones_like(bent[:, :1]).t()
            results[2] = self._padded(self._narrow(ones, bent).squeeze(0))
        return tuple(results)

    def _gradient(self, statistics, upstream):
        call = self.call
        return LogpGradient.apply(
            self.logits, call.targets, *statistics, *upstream, call.row_temperature, None, call.options
        )

    def _flat(self, values):
        return values.reshape(-1, self.vocab).to(self.dtype)

    def _padded(self, values):
        missing = self.columns - self.vocab
        return torch.cat((values, values.new_zeros(missing, *values.shape[1:]))) if missing else values
