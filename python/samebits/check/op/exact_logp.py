"""Log-probabilities of selected tokens and their gradients in binary64."""

from collections.abc import Iterator

import torch
from torch import Tensor

from samebits.check.op.exact import Part, Parts, Size, pieces, tree_sum, whole


class Row:
    """Statistics of the rows of logits ``[rows, vocab]``, of targets ``[rows]``."""

    def __init__(self, logits: Tensor, targets: Tensor):
        """Sums are made in pairs."""
        self.targets = targets.unsqueeze(-1)
        self.peak = logits.amax(-1, keepdim=True)
        self.below = self.peak - logits  # [rows, vocab], not negative
        total = tree_sum((-self.below).exp()).unsqueeze(-1)
        self.log_total = total.log()
        self.p = (-self.below).exp() / total
        self.mean_below = tree_sum(self.p * self.below).unsqueeze(-1)
        self.chosen_below = self.below.gather(-1, self.targets)
        self.chosen_p = self.p.gather(-1, self.targets)

    def outputs(self, spread: Tensor | None, depth: int) -> dict[str, Parts]:
        """logp, lse and entropy; `spread` is that of logits which are products of that depth."""
        entropy = self.log_total + self.mean_below
        scale = Size((self.chosen_below + entropy).squeeze(-1), 1)
        turned = Size((entropy + tree_sum(self.p * self.below.square()).unsqueeze(-1)).squeeze(-1), 1)
        values = {
            "logp": (-self.chosen_below - self.log_total, scale),
            "lse": (self.peak + self.log_total, scale),
            "entropy": (entropy, turned),
        }
        carried = {}
        if spread is not None:
            mean = (self.p * spread).sum(-1)
            carried["logp"] = mean + spread.gather(-1, self.targets).squeeze(-1)
            carried["lse"] = mean
            carried["entropy"] = (self.p * (self.below - self.mean_below).abs() * spread).sum(-1)
        sizes = {name: {"carried": Size(value, depth)} for name, value in carried.items()}
        return {
            name: whole(value.squeeze(-1), scale=scale, **sizes.get(name, {}))
            for name, (value, scale) in values.items()
        }

    def of_logits(self, upstream: Tensor) -> Parts:
        """The gradient of the logits, for the upstream ``[rows]`` of logp."""
        g = upstream.double().unsqueeze(-1)
        gradient = -g * self.p
        size = g.abs() * self.p * (1 + 0.074 * self.below)
        # Of the target: 1 - p, not by subtraction from 1, which would lose what is left of it.
        others = self.p.scatter(-1, self.targets, 0.0)
        gradient.scatter_(-1, self.targets, g * tree_sum(others).unsqueeze(-1))
        size.scatter_(-1, self.targets, g.abs())
        return whole(gradient, probability=Size(size, self.p.shape[-1]))


class Head:
    """Exact results of a head: hidden ``[rows, size]``, weight ``[vocab, size]``, targets ``[rows]``, and the
    upstream gradient ``[rows]`` of logp."""

    def __init__(self, hidden: Tensor, weight: Tensor, targets: Tensor, upstream: Tensor):
        """Computes the logits, ``[rows, vocab]``, and their spread."""
        self.hidden, self.weight, self.targets = hidden.double(), weight, targets
        (rows, self.size), vocab = hidden.shape, len(weight)
        logits, self.spread = (self.hidden.new_empty(rows, vocab) for _ in range(2))
        for at in self._pieces():
            w = weight[at].double()
            logits[:, at] = self.hidden @ w.t()
            self.spread[:, at] = (self.hidden.square() @ w.square().t()).sqrt()
        self.row = Row(logits, targets)
        g = upstream.double().unsqueeze(-1)
        (part,) = self.row.of_logits(upstream)
        at_target = self.row.targets
        self.gradient = part.value  # of the logits
        self.others = self.gradient.scatter(-1, at_target, 0.0)
        self.worst = self.spread.amax(-1, keepdim=True)
        mean = (self.row.p * self.spread).sum(-1, keepdim=True)
        # What the target's own column moves by, before the other operand; and the upstream's size.
        self.target_moves = (g * self.row.chosen_p).abs() * (self.spread.gather(-1, at_target) + mean)
        self.upstream = g.abs()

    def outputs(self) -> dict[str, Parts]:
        """logp, lse and entropy."""
        return self.row.outputs(self.spread, self.size)

    def of_hidden(self) -> Parts:
        """The gradient of hidden."""
        value, squares = torch.zeros_like(self.hidden), torch.zeros_like(self.hidden)
        for at in self._pieces():
            w = self.weight[at].double()
            value += self.gradient[:, at] @ w
            squares += self.others[:, at].square() @ w.square()
        chosen = self.weight[self.targets].double().abs()
        spread = squares.sqrt()
        return whole(
            value,
            spread=Size(spread, len(self.weight)),
            carried=Size(self.worst * spread, self.size),
            carried_target=Size(self.target_moves * chosen, self.size),
            target=Size(self.upstream * chosen, 1),
        )

    def of_weight(self) -> Iterator[Part]:
        """The gradient of weight, in parts of some rows."""
        rows = len(self.hidden)
        squared, size = self.hidden.square(), self.hidden.abs()
        for at in self._pieces():
            others = self.others[:, at].t()
            ids = torch.arange(at.start, at.stop, device=self.hidden.device).unsqueeze(-1)
            hit = (ids == self.targets).double()  # [rows of the part, tokens]
            sizes = {
                "spread": Size((others.square() @ squared).sqrt(), rows),
                "carried": Size(((others * self.worst.t()).square() @ squared).sqrt(), self.size),
                "carried_target": Size((hit * self.target_moves.t()) @ size, self.size),
                "target": Size((hit * self.upstream.t()) @ size, rows),
            }
            yield Part((at, slice(None)), self.gradient[:, at].t() @ self.hidden, sizes)

    def _pieces(self) -> Iterator[slice]:
        return pieces(len(self.weight), max(self.size, len(self.hidden)))
