"""Speed and memory of linear_logp, beside the bare products of a library and PyTorch's own head."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

import samebits as sb
from samebits.bench import peers
from samebits.bench.cases import Case
from samebits.bench.timing import Calls, in_one_graph, peak_bytes

from .timings import installed, medians

SIZE, VOCAB = 2688, 131072
ROWS = (2048, 8192, 16384)
FEW = (1, 8, 64)
MOST_FP32_ROWS = 16384  # log_softmax in fp32 holds several times the logits
HOT = 0.6  # seconds: the chip lowers its clock within a second of such work, and all are timed hot


def _step(hidden: torch.Tensor, weight: torch.Tensor, values: Callable[[], torch.Tensor],
          upstream: torch.Tensor) -> Callable[[], None]:  # fmt: skip
    """Forward and backward; the gradients are dropped."""

    def run() -> None:
        result = values()
        result.backward(upstream.to(result.dtype) if result.dim() else None)  # QuACK gives the sum
        hidden.grad = weight.grad = None

    return run


def large(rows: int, size: int, vocab: int, device: str, rounds: int) -> dict[str, Any]:
    """One shape: milliseconds of every contestant, and bytes of samebits beyond operands and gradients."""
    hidden = torch.randn(rows, size, device=device).bfloat16().requires_grad_()
    weight = (torch.randn(vocab, size, device=device) * 0.02).bfloat16().requires_grad_()
    targets = torch.randint(vocab, (rows,), device=device)
    masked = targets.clone()
    masked[torch.randperm(rows, device=device)[: rows // 2]] = -100
    upstream = torch.randn(rows, device=device)
    x, w = hidden.detach(), weight.detach()
    room = [torch.randn(rows, vocab, device=device, dtype=torch.bfloat16)]  # of logits
    to_hidden, to_weight = torch.empty_like(x), torch.empty_like(w)

    def ours(ids: torch.Tensor, memory: str = "recompute") -> Callable[[], None]:
        return _step(hidden, weight, lambda: sb.linear_logp(hidden, weight, ids, memory=memory), upstream)

    def entropy() -> torch.Tensor:
        return -F.cross_entropy(hidden @ weight.t(), targets, reduction="none")

    def softmax() -> torch.Tensor:
        return F.log_softmax((hidden @ weight.t()).float(), -1).gather(1, targets[:, None])[:, 0]

    found = installed(
        peers.OF_HEADS, Case("linear_logp", "fwdbwd", rows, vocab, size, "bf16", device, 0, False)
    )
    forward_calls: Calls = {
        "bare product: logits": lambda: torch.mm(x, w.t(), out=room[0]),
        "samebits": lambda: sb.linear_logp(x, w, targets),
        "samebits, half of the rows masked": lambda: sb.linear_logp(x, w, masked),
        "PyTorch, F.cross_entropy in bf16": lambda: F.cross_entropy(x @ w.t(), targets, reduction="none"),
    }
    forward_calls |= {name: lambda f=function: f(x, w, targets) for name, function in found.items()}
    forward = medians(forward_calls, device, rounds, HOT)
    both: Calls = {
        "bare product: logits": lambda: torch.mm(x, w.t(), out=room[0]),
        "bare product: grad_hidden": lambda: torch.mm(room[0], w, out=to_hidden),
        "bare product: grad_weight": lambda: torch.mm(room[0].t(), x, out=to_weight),
        "samebits, recompute": ours(targets),
        "samebits, recompute, half of the rows masked": ours(masked),
        "samebits, saved P": ours(targets, "save"),
        "samebits, saved P, half of the rows masked": ours(masked, "save"),
        "PyTorch, F.cross_entropy in bf16": _step(hidden, weight, entropy, upstream),
    }
    if rows <= MOST_FP32_ROWS:
        both["PyTorch, log_softmax in fp32"] = _step(hidden, weight, softmax, upstream)
    for name, function in found.items():
        both[name] = _step(hidden, weight, lambda f=function: f(hidden, weight, targets), upstream)
    step = medians(both, device, rounds, HOT)
    room.clear()
    gradients = 2 * (x.numel() + w.numel())
    return {
        "rows": rows,
        "size": size,
        "vocab": vocab,
        "forward_milliseconds": forward,
        "forward_and_backward_milliseconds": step,
        "forward_extra_bytes": peak_bytes(lambda: sb.linear_logp(x, w, targets), x.device),
        "backward_extra_bytes": peak_bytes(ours(targets), x.device) - gradients,
        "backward_extra_bytes_allowed_for_hidden": 8 * x.numel(),
    }


def few(rows: int, size: int, vocab: int, device: str, rounds: int) -> dict[str, Any]:
    """Decode: microseconds of one call inside a CUDA graph."""
    hidden = torch.randn(rows, size, device=device).bfloat16()
    weight = (torch.randn(vocab, size, device=device) * 0.02).bfloat16()
    targets = torch.randint(vocab, (rows,), device=device)
    logits = torch.empty(rows, vocab, device=device, dtype=torch.bfloat16)
    calls = {
        "bare product": lambda: torch.mm(hidden, weight.t(), out=logits),
        "samebits": lambda: sb.linear_logp(hidden, weight, targets),
    }
    replays = {name: in_one_graph([call] * 4) for name, call in calls.items()}
    try:
        from samebits.bench.reader import Reader

        replays["pure read of weight"] = Reader(weight)
    except ImportError:
        print("  triton is not installed: no pure read in this table")
    times = medians(replays, device, rounds)
    return {
        "rows": rows,
        "microseconds": {name: round(t * (1000 if "read" in name else 250), 1) for name, t in times.items()},
    }


def record(device: str, quick: bool) -> dict[str, Any]:
    """Both tables. `quick` shrinks the shapes."""
    rounds = 3 if quick else 9
    vocab = 8192 if quick else VOCAB
    tables: dict[str, Any] = {"large": [], "few": []}
    for rows in (256,) if quick else ROWS:
        print(f"  head: {rows} rows", flush=True)
        tables["large"].append(large(rows, SIZE, vocab, device, rounds))
        torch.cuda.empty_cache()
    for rows in FEW:
        tables["few"].append(few(rows, SIZE, vocab, device, rounds))
    return tables
