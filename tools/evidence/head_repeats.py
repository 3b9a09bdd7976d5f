"""A step of linear_logp over and over, P saved and computed anew in turn: every bit against the first."""

from typing import Any, NamedTuple

import torch

import samebits as sb

from . import head_cases
from .bits import words


class Repeats(NamedTuple):
    """Steps of a head. The last `beside` of them run beside a stream that keeps the GPU busy."""

    rows: int
    vocab: int
    size: int
    times: int
    beside: int


def repeats(quick: bool = False) -> list[Repeats]:
    """1,000 of the step of a small batch, fewer of long ones."""
    if quick:
        return [Repeats(70, 777, 64, 6, 3)]
    return [
        Repeats(2048, 131072, 2688, 1000, 100),
        Repeats(8192, 131072, 2688, 60, 12),
        Repeats(8192, 151936, 4096, 25, 5),
        Repeats(8192, 129280, 7168, 20, 5),
    ]


def record(some: Repeats, device: str) -> dict[str, Any]:
    """How many of the steps gave another bit than the first one; should be none."""
    case = head_cases.Case(
        "repeats", 12, "bfloat16", some.rows, some.vocab, some.size, scale=0.03, turned=2048
    )
    every = torch.arange(case.rows, device=device)
    hidden, weight = case.matrix("a", every), case.weight(torch.arange(case.vocab, device=device))
    targets, upstreams = case.targets(every), case.upstreams(every)

    leaves = [hidden.requires_grad_(), weight.requires_grad_()]

    def step(memory: str) -> list[torch.Tensor]:
        results = sb.linear_logp(*leaves, targets, return_lse=True, memory=memory)
        gradients = torch.autograd.grad(results, leaves, upstreams[:2])
        return [words(value.detach()) for value in (*results, *gradients) if value is not None]

    first = step("recompute")
    differing = torch.zeros((), dtype=torch.int64, device=device)
    busy = torch.cuda.Stream(device) if device != "cpu" else None
    for number in range(some.times):
        if busy is not None and number >= some.times - some.beside:
            # From here to about the end of the step: in all four times the columns of logits.
            busy.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(busy), torch.no_grad():
                for _ in range(0, 4 * case.vocab, 8192):
                    torch.mm(hidden, weight[:8192].t())
        again = step(("recompute", "save")[number % 2])
        same = [(left == right).all() for left, right in zip(again, first, strict=True)]
        differing += ~torch.stack(same).all()
    return {**some._asdict(), "steps_that_differ": int(differing)}


def problems(record: dict[str, Any]) -> list[str]:
    """The count, if it is not 0."""
    count = record.get("steps_that_differ")
    if not isinstance(count, int):
        return [f"a record of repeats lacks its count: {record}"]
    return [f"{count} of {record['times']} steps of {record['rows']} rows differ"] if count else []
