"""Ways to the derivatives of a function of rows, each along one direction after another.

Every method takes ``function(logits) -> [rows]``, the logits and float64 directions, and gives its results
for the orders 1, 2, .. in turn. The rows do not see each other, so the gradient of their sum is that of each.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.func import grad, jvp

# Levels from the inside out, repeated: r differentiates in reverse mode, f in forward mode.
NESTED = {"forward": "f", "forward over reverse": "rf", "reverse over forward": "fr"}
METHODS = ("reverse", *NESTED)


def contract(gradient: Tensor, direction: Tensor) -> Tensor:
    """``[rows]``: the gradient along the direction, summed in float64; its backward rounds nothing."""
    return (gradient.double() * direction).sum(-1)


def reverse(function: Callable, logits: Tensor, directions: list[Tensor], orders: int) -> Iterator[Tensor]:
    """Gradients ``[rows, vocab]``; that of order n is taken along the first n - 1 directions."""
    leaf = logits.detach().requires_grad_()
    value = function(leaf)
    for order in range(1, orders + 1):
        (gradient,) = torch.autograd.grad(value.sum(), leaf, create_graph=order < orders)
        yield gradient.detach()
        if order < orders:
            value = contract(gradient, directions[order - 1])


def nested(
    kind: str, function: Callable, logits: Tensor, directions: list[Tensor], orders: int
) -> list[Tensor]:
    """Directional derivatives ``[rows]``; that of order n is along the first n directions.

    One nest of transforms gives all orders: each level hands on the values of those inside it.
    """

    def all_orders(x: Tensor) -> tuple[Tensor, ...]:
        return (function(x),)

    levels = NESTED[kind]
    for order in range(orders):
        level = _forward_level if levels[order % len(levels)] == "f" else _reverse_level
        all_orders = level(all_orders, directions[order])
    return list(all_orders(logits)[1:])


def _forward_level(inner: Callable, direction: Tensor) -> Callable:
    def level(x: Tensor) -> tuple[Tensor, ...]:
        values, tangents = jvp(inner, (x,), (direction.to(x.dtype),))
        return (*values, tangents[-1])

    return level


def _reverse_level(inner: Callable, direction: Tensor) -> Callable:
    def last_and_all(x: Tensor):
        values = inner(x)
        return values[-1].sum(), values

    def level(x: Tensor) -> tuple[Tensor, ...]:
        gradient, values = grad(last_and_all, has_aux=True)(x)
        return (*values, contract(gradient, direction))

    return level


def outermost_reverse(kind: str, order: int) -> int | None:
    """The level, from 0, whose gradient a result of that order was summed from; None in pure forward mode."""
    levels = NESTED[kind]
    return next((at for at in range(order - 1, -1, -1) if levels[at % len(levels)] == "r"), None)
