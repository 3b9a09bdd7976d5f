"""Speed: every contestant on the same tensors, call by call in turn, medians of one run."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import samebits as sb

OPS = torch.ops.samebits
LARGE = ((4096, 131072), (8192, 151936))
FEW = (1, 8, 64)
Calls = dict[str, Callable[[], Any]]


def _milliseconds(call: Callable[[], Any], other: torch.Tensor | None) -> float:
    # Reading a large tensor first empties the cache of the last contestant's lines, and keeps the device busy
    # until the call is queued, so that the time of Python is not in the figure.
    if other is not None:
        other.amax()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def interleaved(calls: Calls, rounds: int, other: torch.Tensor | None = None) -> dict[str, float]:
    """Median milliseconds of each, every time after a read of `other` if there is one.

    One that fails while warming up is left out, with the reason printed.
    """
    times: dict[str, list[float]] = {}
    for name, call in calls.items():
        try:
            for _ in range(2):
                call()
            torch.cuda.synchronize()
            times[name] = []
        except Exception as error:
            print(f"  {name} does not run here: {type(error).__name__}: {str(error)[:200]}")
    for _ in range(rounds):
        for name, measured in times.items():
            measured.append(_milliseconds(calls[name], other))
    return {name: round(sorted(measured)[len(measured) // 2], 4) for name, measured in times.items()}


def _peers(logits: torch.Tensor, targets: torch.Tensor) -> Calls:
    """The fastest cross entropies there are, where they are installed."""
    found: Calls = {}
    try:
        from quack.cross_entropy import cross_entropy_fwd

        found["QuACK forward"] = lambda: cross_entropy_fwd(logits, targets)
    except ImportError:
        pass
    try:
        from liger_kernel.transformers.functional import liger_cross_entropy

        # Its forward writes the gradient into the logits, so it is timed on a copy of its own.
        own = logits.clone()
        found["Liger forward with gradient"] = lambda: liger_cross_entropy(own, targets, reduction="sum")
    except ImportError:
        pass
    return found


def _forward(logits: torch.Tensor, targets: torch.Tensor) -> Calls:
    def without_grad(call):
        def run():
            with torch.no_grad():
                return call()

        return run

    return {
        "samebits forward": without_grad(lambda: sb.logp(logits, targets)),
        "samebits forward with lse and entropy": without_grad(
            lambda: sb.logp(logits, targets, return_lse=True, return_entropy=True)
        ),
        "F.cross_entropy forward": without_grad(lambda: F.cross_entropy(logits, targets, reduction="none")),
        "log_softmax and gather": without_grad(
            lambda: torch.log_softmax(logits.float(), -1).gather(-1, targets[:, None])
        ),
        **{name: without_grad(call) for name, call in _peers(logits, targets).items()},
    }


def large(rows: int, vocab: int, dtype: torch.dtype, device: str, rounds: int) -> dict[str, Any]:
    """One large batch: read, copy, forwards, backwards, both together."""
    logits = torch.randn(rows, vocab, device=device, dtype=dtype)
    targets = torch.randint(vocab, (rows,), device=device)
    upstream = torch.randn(rows, device=device)
    buffer = torch.empty_like(logits)
    leaf = logits.detach().requires_grad_()
    stats = OPS.logp_forward(logits, targets, False, False, True)[3:]

    def both(loss, grad):
        return lambda: torch.autograd.grad(loss(leaf), leaf, grad)

    calls: Calls = {}
    try:
        from .reading import Reader

        calls["pure read"] = Reader(logits)
    except ImportError:
        print("  triton is not installed: no pure read in this table")
    calls |= {
        "copy": lambda: buffer.copy_(logits),
        **_forward(logits, targets),
        "samebits backward": lambda: OPS.logp_backward(logits, targets, *stats, upstream, None, None),
        "samebits forward and backward": both(lambda x: sb.logp(x, targets), upstream),
        "F.cross_entropy forward and backward": both(
            lambda x: F.cross_entropy(x, targets, reduction="none"), upstream.to(dtype)
        ),
    }
    try:
        from quack.cross_entropy import cross_entropy

        calls["QuACK forward and backward"] = both(
            lambda x: cross_entropy(x, targets, reduction="none"), upstream
        )
    except ImportError:
        pass
    medians = interleaved(calls, rounds, torch.zeros(1 << 28, device=device))
    size = logits.numel() * logits.element_size()
    rates = {name: round(size / time / 1e6) for name, time in medians.items()}
    return {"rows": rows, "vocab": vocab, "dtype": str(dtype).removeprefix("torch."),
            "milliseconds": medians, "gb_per_s_of_one_read": rates}  # fmt: skip


def few(rows: int, vocab: int, dtype: torch.dtype, device: str, rounds: int) -> dict[str, Any]:
    """Few rows, inside CUDA graphs of 16 calls on 16 inputs each; microseconds a call."""
    inputs = [torch.randn(rows, vocab, device=device, dtype=dtype) for _ in range(16)]
    targets = torch.randint(vocab, (rows,), device=device)
    per_input = [_forward(x, targets) for x in inputs]
    for calls in per_input:
        calls.pop("Liger forward with gradient", None)  # waits for the device, which no graph can hold
    replays: Calls = {}
    for name in per_input[0]:
        try:
            for calls in per_input:
                calls[name]()
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for calls in per_input:
                    calls[name]()
            replays[name] = graph.replay
        except Exception as error:
            print(f"  {name} is not captured: {type(error).__name__}: {str(error)[:200]}")
    medians = interleaved(replays, rounds)
    microseconds = {name: round(time * 1000 / len(inputs), 3) for name, time in medians.items()}
    return {"rows": rows, "vocab": vocab, "dtype": str(dtype).removeprefix("torch."),
            "microseconds_in_a_graph": microseconds}  # fmt: skip


def record(device: str, quick: bool) -> dict[str, Any]:
    """Both tables. `quick` shrinks the shapes."""
    rounds = 3 if quick else 11
    shapes = ((256, 131072),) if quick else LARGE
    dtypes = (torch.bfloat16, torch.float32)
    tables = {"large": [], "few": []}
    for rows, vocab in shapes:
        for dtype in dtypes:
            print(f"  {rows} x {vocab} {dtype}", flush=True)
            tables["large"].append(large(rows, vocab, dtype, device, rounds))
            torch.cuda.empty_cache()
    for rows in FEW:
        for dtype in dtypes:
            tables["few"].append(few(rows, 131072, dtype, device, rounds))
    return tables
