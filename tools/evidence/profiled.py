"""python -m evidence.profiled ROWS: what ncu is shown, between cudaProfilerStart and cudaProfilerStop.

The library's bare products of the LM head, a step that keeps P and one that computes it anew; with ROWS 0 the
passes of `logp` instead, of 4096 rows in bfloat16 and fp32.
"""

import sys
from collections.abc import Callable

import torch

import samebits as sb

VOCAB, SIZE, LOGP_ROWS = 131072, 2688, 4096


def head_calls(rows: int) -> list[Callable[[], object]]:
    """Steps of the head and the products that they are compared with."""
    hidden = torch.randn(rows, SIZE, device="cuda").bfloat16().requires_grad_()
    weight = (torch.randn(VOCAB, SIZE, device="cuda") * 0.02).bfloat16().requires_grad_()
    targets = torch.randint(VOCAB, (rows,), device="cuda")
    x, w = hidden.detach(), weight.detach()
    logits = torch.empty(rows, VOCAB, device="cuda", dtype=torch.bfloat16)

    def step(memory: str) -> None:
        sb.linear_logp(hidden, weight, targets, memory=memory).sum().backward()
        hidden.grad = weight.grad = None

    return [
        lambda: torch.mm(x, w.t(), out=logits),
        lambda: torch.mm(logits, w),
        lambda: torch.mm(logits.t(), x),
        lambda: step("save"),
        lambda: step("recompute"),
    ]


def logp_calls() -> list[Callable[[], object]]:
    """Forward and backward of `logp`."""

    def step(logits: torch.Tensor, targets: torch.Tensor) -> None:
        sb.logp(logits, targets).sum().backward()
        logits.grad = None

    calls: list[Callable[[], object]] = []
    for dtype in (torch.bfloat16, torch.float32):
        logits = torch.randn(LOGP_ROWS, VOCAB, device="cuda").to(dtype).requires_grad_()
        targets = torch.randint(VOCAB, (LOGP_ROWS,), device="cuda")
        calls.append(lambda logits=logits, targets=targets: step(logits, targets))
    return calls


def main(rows: int) -> None:
    """Each call once to warm up, then once under the profiler."""
    torch.manual_seed(0)
    calls = head_calls(rows) if rows > 0 else logp_calls()
    for call in calls:
        call()
    torch.cuda.synchronize()
    with torch.cuda.profiler.profile():
        for call in calls:
            call()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main(int(sys.argv[1]))
