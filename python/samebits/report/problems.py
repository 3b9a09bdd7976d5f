"""Small calls of every operator, as rows that may be laid out in any way and operands that all rows share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

import samebits as sb

Rows = dict[str, Tensor]  # each tensor has one entry along its first axis for every row


class Problem(NamedTuple):
    """One operator on one set of inputs.

    ``call(rows, shared, options)`` gives a tensor or a named tuple of them, one entry for each row;
    ``rows["upstream"]`` is the gradient of each.
    """

    operator: str
    call: Callable[[Rows, Rows, dict[str, Any]], Any]
    rows: Rows
    shared: Rows
    leaves: tuple[str, ...]  # of `rows`, to be differentiated, as all of `shared` are
    padding: dict[str, float]  # what a padding row holds
    ids: str | None  # the rows' ids, where a row can be left out by one
    options: tuple[str, ...] = ()  # layouts that are options of the call

    def evaluate(self, batches: list[Rows], **options) -> tuple[Rows, Rows]:
        """(values and gradients of the rows in the order of the batches, gradients of what they share).

        The latter are sums over all rows, and empty where there are several batches.
        """
        of_rows: dict[str, list[Tensor]] = {}
        of_shared: Rows = {}
        for batch in batches:
            leaves = {name: batch[name].detach().requires_grad_() for name in self.leaves}
            shared = {name: value.detach().requires_grad_() for name, value in self.shared.items()}
            outputs = self.call({**batch, **leaves}, shared, options)
            named = outputs._asdict() if hasattr(outputs, "_asdict") else {"out": outputs}
            upstream = [_fit(batch["upstream"], value) for value in named.values()]
            gradients = torch.autograd.grad(
                list(named.values()), [*leaves.values(), *shared.values()], upstream
            )
            for name, gradient in zip(leaves, gradients, strict=False):
                named[f"gradient of {name}"] = gradient
            of_shared = dict(
                zip((f"gradient of {name}" for name in shared), gradients[len(leaves) :], strict=True)
            )
            for name, value in named.items():
                of_rows.setdefault(name, []).append(value.detach())
        joined = {name: torch.cat(parts) for name, parts in of_rows.items()}
        return joined, of_shared if len(batches) == 1 else {}

    def at(self, index: Tensor) -> Rows:
        """The rows of that index."""
        return {name: value[index] for name, value in self.rows.items()}

    def moved(self, device: str) -> "Problem":
        """The same on another device."""
        return self._replace(
            rows={name: value.to(device) for name, value in self.rows.items()},
            shared={name: value.to(device) for name, value in self.shared.items()},
        )


def _fit(upstream: Tensor, value: Tensor) -> Tensor:
    upstream = upstream if value.dim() > 1 else upstream[:, 0]
    return upstream.to(value.dtype)


def problems(dtype: torch.dtype, device: str, seed: int, quick: bool) -> list[Problem]:
    """Every operator; made on the CPU, so that all devices get the same numbers."""
    count, vocab, size = (37, 515, 48) if quick else (257, 4099, 320)
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(*shape, generator=generator) * scale).to(dtype)

    targets = torch.randint(0, vocab, (count,), generator=generator)
    targets[5] = -100  # a row that takes no part
    few = torch.randint(0, 40, (count,), generator=generator)  # so that ids repeat
    upstream = torch.randn(count, size, generator=generator, dtype=torch.float64)
    hidden, weight = normal(count, size), normal(vocab, size, scale=3 / size**0.5)
    bias, logits = normal(vocab), normal(count, vocab, scale=3.0)
    on_ids: dict[str, float] = {"ids": -100, "upstream": 1.5}
    made = [
        Problem(
            "logp",
            lambda rows, _, options: sb.logp(rows["logits"], rows["ids"], **_STATISTICS, **options),
            {"logits": logits, "ids": targets, "upstream": upstream}, {}, ("logits",),
            {"logits": 3.0, **on_ids}, "ids", ("rows",),
        ),
        Problem(
            "linear_logp",
            lambda rows, shared, options: sb.linear_logp(
                rows["hidden"], shared["weight"], rows["ids"], bias=shared["bias"], **_STATISTICS, **options
            ),
            {"hidden": hidden, "ids": targets, "upstream": upstream},
            {"weight": weight, "bias": bias}, ("hidden",), {"hidden": 3.0, **on_ids}, "ids",
            ("rows", "memory"),
        ),
        Problem(
            "linear",
            lambda rows, shared, options: sb.linear(rows["x"], shared["weight"], shared["bias"], **options),
            {"x": hidden, "upstream": upstream @ torch.eye(size, 64, dtype=torch.float64)},
            {"weight": weight[:64], "bias": bias[:64]}, ("x",), {"x": 3.0, "upstream": 1.5}, None,
        ),
        Problem(
            "embedding",
            lambda rows, shared, options: sb.embedding(rows["ids"], shared["weight"], **options),
            {"ids": few, "upstream": upstream}, {"weight": weight}, (), on_ids, "ids",
        ),
    ]  # fmt: skip
    return [problem.moved(device) for problem in made]


_STATISTICS = {"return_lse": True, "return_entropy": True, "temperature": 0.75}
