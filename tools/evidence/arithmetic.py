"""What of torch's own arithmetic has the same bits on the GPU as on the CPU beside it, and what has not.

samebits' operators agree; what a trainer computes between them need not. Elementwise operators on the same
numbers, with the exponential of `exp.v1`, which must agree; then optimizers on the same gradients.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from samebits.report.context import DTYPES, differing

from . import machine

sys.path.insert(0, str(machine.ROOT / "examples"))
from grpo_model import Adam, root

COUNT, WEIGHTS, STEPS = 1_000_000, 200_000, 5
Numbers = dict[str, Tensor]
OPERATORS: dict[str, Callable[[Numbers], Tensor]] = {
    "a + b": lambda t: t["a"] + t["b"],
    "a * b": lambda t: t["a"] * t["b"],
    "a / b": lambda t: t["a"] / t["b"],
    "a * 0.1": lambda t: t["a"] * 0.1,
    "a / 3.7": lambda t: t["a"] / 3.7,
    "add(a, b, alpha=0.3)": lambda t: torch.add(t["a"], t["b"], alpha=0.3),
    "lerp(a, b, 0.1)": lambda t: torch.lerp(t["a"], t["b"], 0.1),
    "addcmul(c, a, b, value=0.01)": lambda t: torch.addcmul(t["c"], t["a"], t["b"], value=0.01),
    "addcdiv(c, a, b, value=-0.01)": lambda t: torch.addcdiv(t["c"], t["a"], t["b"], value=-0.01),
    "relu(a)": lambda t: torch.relu(t["a"]),
    "sqrt(b)": lambda t: torch.sqrt(t["b"]),
    "rsqrt(b)": lambda t: torch.rsqrt(t["b"]),
    "exp(a)": lambda t: torch.exp(t["a"]),
    "expm1(a)": lambda t: torch.expm1(t["a"]),
    "log(b)": lambda t: torch.log(t["b"]),
    "sigmoid(a)": lambda t: torch.sigmoid(t["a"]),
    "tanh(a)": lambda t: torch.tanh(t["a"]),
}
_TERMS = {"exp.v1(a)": 0, "exp.v1(a) - 1": 1, "exp.v1(a) - 1 - a": 2}
MUST_AGREE: dict[str, Callable[[Numbers], Tensor]] = {
    name: lambda t, terms=terms: torch.ops.samebits.exp_tail(t["a"], terms) for name, terms in _TERMS.items()
}
ROOT = "sqrt(b), in fp64, rounded to fp32"
OPTIMIZERS: dict[str, Callable[[list[Tensor]], Any]] = {
    "AdamW, one tensor after the other": lambda w: torch.optim.AdamW(w, lr=5e-4, foreach=False),
    "AdamW, foreach": lambda w: torch.optim.AdamW(w, lr=5e-4, foreach=True),
    "AdamW, fused": lambda w: torch.optim.AdamW(w, lr=5e-4, fused=True),
    "SGD with momentum": lambda w: torch.optim.SGD(w, lr=0.1, momentum=0.9, foreach=False),
}
OF_THE_EXAMPLE = "Adam of examples/grpo.py"


def record(device: str, quick: bool = False) -> dict[str, Any]:
    """Elements that differ, of each operator and after each step of each optimizer; problems by name."""
    scale = 100 if quick else 1
    operators = list(operators_apart(device, COUNT // scale))
    optimizers = list(optimizers_apart(device, WEIGHTS // scale))
    must = {*MUST_AGREE, ROOT, OF_THE_EXAMPLE}
    return {
        "elements": COUNT // scale,
        "weights": WEIGHTS // scale,
        "operators": operators,
        "optimizers": optimizers,
        "problems": [
            f"{line['name']}, {line['dtype']}: {line['differing']} elements differ"
            for line in [*operators, *optimizers]
            if line["name"] in must and line["differing"] not in (0, [0] * STEPS)
        ],
    }


def numbers(count: int) -> Numbers:
    """a in [-20, 20], b from 2^-60 to 2^10, c normal: on a CPU, in fp32, the same wherever they are drawn."""
    generator = torch.Generator().manual_seed(0)
    a = (torch.rand(count, generator=generator) - 0.5) * 40
    exponents = torch.randint(-59, 11, (count,), generator=generator).float()
    b = (torch.rand(count, generator=generator) + 1) * 0.5 * torch.pow(2.0, exponents)
    return {"a": a, "b": b, "c": a.flip(0) * 0.1}


def operators_apart(device: str, count: int) -> Iterator[dict[str, Any]]:
    """Each operator in fp32 and fp64."""
    drawn = numbers(count)
    for dtype in ("fp32", "fp64"):
        here = {name: value.to(DTYPES[dtype]) for name, value in drawn.items()}
        there = {name: value.to(device) for name, value in here.items()}
        for name, operator in {**OPERATORS, **MUST_AGREE}.items():
            yield {
                "name": name,
                "dtype": dtype,
                "differing": differing(operator(there).cpu(), operator(here)),
            }
    yield {
        "name": ROOT,
        "dtype": "fp32",
        "differing": differing(root(drawn["b"].to(device)).cpu(), root(drawn["b"])),
    }


def optimizers_apart(device: str, count: int) -> Iterator[dict[str, Any]]:
    """Each optimizer on the same fp32 weights and gradients: weights that differ after each step."""
    generator = torch.Generator().manual_seed(1)
    start = torch.randn(count, generator=generator)
    gradients = [torch.randn(count, generator=generator) * 1e-3 for _ in range(STEPS)]
    for name, make in OPTIMIZERS.items():
        pairs = zip(*(_stepped(make, start.to(at), gradients) for at in ("cpu", device)), strict=True)
        yield {"name": name, "dtype": "fp32", "differing": [differing(*pair) for pair in pairs]}
    pairs = zip(*(_by_the_example(start.to(at), gradients) for at in ("cpu", device)), strict=True)
    yield {"name": OF_THE_EXAMPLE, "dtype": "fp32", "differing": [differing(*pair) for pair in pairs]}


def _stepped(make: Callable, start: Tensor, gradients: list[Tensor]) -> Iterator[Tensor]:
    weight = start.clone().requires_grad_()
    optimizer = make([weight])
    for gradient in gradients:
        weight.grad = gradient.to(weight.device)
        optimizer.step()
        yield weight.detach().cpu().clone()


def _by_the_example(start: Tensor, gradients: list[Tensor]) -> Iterator[Tensor]:
    weight = start.clone().requires_grad_()
    optimizer = Adam([weight], 5e-4)
    for gradient in gradients:
        optimizer.step((weight * gradient.to(weight.device)).sum())
        yield weight.detach().cpu().clone()
