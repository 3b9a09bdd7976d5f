"""Which kernels ran, as torch's profiler saw them, against what the plan promised."""

import re
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import samebits as sb

_OURS = re.compile(r"samebits::cuda::(?:\(anonymous namespace\)::)?(\w+)")
_SUPPORT = ("select_rows", "find_invalid")  # read the row list and the ids; no arithmetic on logits
_FORWARD, _BACKWARD = {"logp_forward"}, {"logp_forward", "logp_backward"}
_COMPOSED = {"logp_forward", "logp_backward", "probability", "row_sum"}


def _paths(device: str) -> dict[str, tuple[set[str], Callable[[], Any]]]:
    """Path -> (operators it must run, the call)."""
    logits = torch.randn(64, 5000, device=device)
    half = logits.bfloat16()
    targets = torch.arange(64, device=device)
    direction = torch.randn_like(logits)
    rows = torch.tensor([1, 5, 63], device=device)
    out = torch.zeros(64, device=device)
    stacked = logits.view(4, 16, 5000)

    def total(x):
        return sb.logp(x, targets).sum()

    def recorded(x, **options):
        leaf = x.detach().requires_grad_()
        torch.autograd.grad(sb.logp(leaf, targets, **options).sum(), leaf)

    def curvature():
        leaf = logits.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(total(leaf), leaf, create_graph=True)
        torch.autograd.grad(gradient, leaf, direction)

    def graph():
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            sb.logp(logits, targets)
        captured.replay()

    def autocast():
        with torch.autocast("cuda", dtype=torch.bfloat16):
            recorded(logits)

    compiled = torch.compile(sb.logp, fullgraph=True)

    def compiled_training_step():
        leaf = half.detach().requires_grad_()
        torch.autograd.grad(compiled(leaf, targets).sum(), leaf)

    return {
        "fused forward": (_FORWARD, lambda: sb.logp(half, targets)),
        "fused forward and backward": (_BACKWARD, lambda: recorded(half)),
        "fused, fp64": (_BACKWARD, lambda: recorded(logits.double())),
        "rows=": (_FORWARD, lambda: sb.logp(logits, targets, rows=rows)),
        "out=": (_FORWARD, lambda: sb.logp(logits, targets, out=out)),
        "CUDA graph": (_FORWARD, graph),
        "autocast": (_BACKWARD, autocast),
        "torch.compile": (_BACKWARD, compiled_training_step),
        "composed: double backward": (_COMPOSED, curvature),
        "torch.func.grad": (_BACKWARD, lambda: torch.func.grad(total)(logits)),
        "torch.func.jvp": (_FORWARD, lambda: torch.func.jvp(total, (logits,), (direction,))),
        "torch.func.vmap": (_FORWARD, lambda: torch.func.vmap(sb.logp)(stacked, targets.view(4, 16))),
        "torch.func.jvp of grad": (
            _FORWARD | {"probability", "row_sum"},
            lambda: torch.func.jvp(torch.func.grad(total), (logits,), (direction,)),
        ),
    }


def ours(names: list[str]) -> list[str]:
    """Our kernels among those named, without those that only look at ids."""
    return sorted({match[1] for match in map(_OURS.search, names) if match} - set(_SUPPORT))


def observed(call: Callable[[], Any]) -> list[str]:
    """Names of the kernels one call runs, warmed up first so that compilation leaves no trace."""
    call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as recording:
        call()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    return sorted({event.name for event in recording.events() if event.device_type == on_device})


def record(device: str) -> dict[str, Any]:
    """Every path with the kernels seen; `problems` is empty when the plan told the truth."""
    plan = sb.plan("logp", device=device)
    promised = {kernel.split("/")[0] for kernel in plan.kernels}
    paths, problems = {}, []
    for name, (expected, call) in _paths(device).items():
        try:
            names = observed(call)
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        found = ours(names)
        operators = {op for op in promised for kernel in found if kernel.startswith(op)}
        unplanned = [kernel for kernel in found if not any(kernel.startswith(op) for op in promised)]
        others = [kernel[:120] for kernel in names if not _OURS.search(kernel)]
        paths[name] = {"samebits_kernels": found, "other_kernels": others}
        if unplanned:
            problems.append(f"{name}: ran {', '.join(unplanned)}, which the plan does not name")
        if not expected <= operators:
            problems.append(f"{name}: {', '.join(sorted(expected - operators))} did not run")
    return {"plan": plan.provenance, "paths": paths, "problems": problems}
