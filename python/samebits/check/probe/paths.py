"""The paths that every operator has: what is called on each, what must run, and what may."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, jvp

from samebits.check.probe.profiled import not_of_the_path


@dataclass(frozen=True)
class Path:
    """One way through an operator."""

    name: str
    call: Callable[[], Any]
    needed: frozenset[str]
    """Names of kernels, as a plan has them, that must run."""
    kind: str = "fused"
    """What torch may do to large tensors: nothing but look at them ("fused"), copy them too ("copied"), or
    compute with them element by element too ("composed")."""
    options: dict[str, Any] = field(default_factory=dict)
    """What the plan is asked for beside the operator's own options, for a path that uses others."""


@dataclass(frozen=True)
class Operator:
    """An operator with operands."""

    op: str
    call: Callable[..., Tensor]
    """Of the differentiable operands alone."""
    leaves: tuple[Tensor, ...]
    """These operands."""
    large: int
    """Elements from which on a tensor is a matter of the operator alone."""
    forward: str
    """Name of the kernel of the value, as a plan has it."""
    backward: str
    """Of the gradient."""
    curved: tuple[str, ...]
    """What a derivative of the gradient needs beyond these two."""
    per_sample: Callable[[], Any]
    """vmap of grad."""
    options: dict[str, Any]
    """What its plan is asked for."""
    composed_of: tuple[str, ...] = ()
    """Operators whose plans hold beyond the first derivative, beside its own."""
    extra: tuple[Path, ...] = ()
    """Paths of its own."""

    def paths(self) -> list[Path]:
        """All paths."""
        fused, once = frozenset({self.forward}), frozenset({self.forward, self.backward})
        curved = once.union(self.curved)
        one, rest = self.leaves[0], self.leaves[1:]
        step = torch.ones_like(one)
        compiled = torch.compile(self.call, fullgraph=True)

        def total(x: Tensor) -> Tensor:
            return scalar(self.call(x, *rest))

        return [
            Path("forward", lambda: self.call(*self.leaves), fused),
            Path("forward and backward", lambda: self.step(self.call), once),
            Path("gradient with create_graph", lambda: self.step(self.call, create_graph=True), once),
            Path("derivative of the gradient", self._twice, curved, "composed"),
            Path("torch.func.grad", lambda: grad(total)(one), once),
            Path("torch.func.vmap of grad", self.per_sample, once, "copied"),
            Path("torch.func.jvp", lambda: jvp(total, (one,), (step,)), fused, "composed"),
            Path("torch.func.jvp of grad", lambda: jvp(grad(total), (one,), (step,)), curved, "composed"),
            Path("torch.compile", lambda: self.step(compiled), once, "copied"),
            *self.extra,
        ]

    def step(self, call: Callable[..., Tensor], create_graph: bool = False) -> tuple[Tensor, ...]:
        """Value and gradient of every operand."""
        leaves = [leaf.detach().requires_grad_() for leaf in self.leaves]
        value = call(*leaves)
        return torch.autograd.grad(value, leaves, ones_like(value), create_graph=create_graph)

    def _twice(self):
        leaves = [leaf.detach().requires_grad_() for leaf in self.leaves]
        value = self.call(*leaves)
        upstream = ones_like(value).requires_grad_()
        gradients = torch.autograd.grad(value, leaves, upstream, create_graph=True)
        directions = [ones_like(gradient) for gradient in gradients]
        return torch.autograd.grad(gradients, [*leaves, upstream], directions, allow_unused=True)


def ones_like(value: Tensor) -> Tensor:
    """Ones as an upstream gradient, which are the probe's own."""
    with not_of_the_path():
        return torch.ones_like(value)


def scalar(value: Tensor) -> Tensor:
    """The sum, which is the probe's own and no part of the path."""
    with not_of_the_path():
        return value.sum()
