"""Speed: every contestant on the same tensors, call by call in turn, medians of one run."""

from typing import Any

import torch
import torch.nn.functional as F

import samebits as sb
from samebits.bench import peers
from samebits.bench.cases import Case, Contestant, Function
from samebits.bench.timing import Calls, in_one_graph

from .turns import entered, take_turns

OPS = torch.ops.samebits
LARGE = ((4096, 131072), (8192, 151936))
FEW = (1, 8, 64)


def medians(calls: Calls, device: str, rounds: int, cold: bool = False) -> dict[str, float]:
    """Median milliseconds of each; one that fails at its first call is left out, with the reason printed."""
    return take_turns(calls, device, rounds, cold=cold).milliseconds


def installed(contestants: tuple[Contestant, ...], case: Case) -> dict[str, Function]:
    """Those of other packages that can do the case."""
    return {one.name: one.make() for one in entered(contestants, case)[0]}


def _peers(mode: str, logits: torch.Tensor) -> dict[str, Function]:
    """Cross entropies of other packages that can do this."""
    dtype = {torch.bfloat16: "bf16", torch.float32: "fp32"}[logits.dtype]
    case = Case("logp", mode, *logits.shape, 0, dtype, str(logits.device), 0, mode != "decode")
    return installed(peers.OF_LOGITS, case)


def _forward(logits: torch.Tensor, targets: torch.Tensor, others: dict[str, Function]) -> Calls:
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
        **{
            f"{name} forward": without_grad(lambda f=function: f(logits, targets))
            for name, function in others.items()
        },
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
        from samebits.bench.reader import Reader

        calls["pure read"] = Reader(logits)
    except ImportError:
        print("  triton is not installed: no pure read in this table")
    calls |= {
        "copy": lambda: buffer.copy_(logits),
        **_forward(logits, targets, _peers("fwd", logits)),
        "samebits backward": lambda: OPS.logp_backward(logits, targets, *stats, upstream, None, None),
        "samebits forward and backward": both(lambda x: sb.logp(x, targets), upstream),
        "F.cross_entropy forward and backward": both(
            lambda x: F.cross_entropy(x, targets, reduction="none"), upstream.to(dtype)
        ),
    }
    if quack := _peers("fwdbwd", logits).get("QuACK"):
        calls["QuACK forward and backward"] = both(lambda x: quack(x, targets), upstream)
    times = medians(calls, device, rounds, cold=True)
    rates = {name: round(logits.nbytes / time / 1e6) for name, time in times.items()}
    return {"rows": rows, "vocab": vocab, "dtype": str(dtype).removeprefix("torch."),
            "milliseconds": times, "gb_per_s_of_one_read": rates}  # fmt: skip


def few(rows: int, vocab: int, dtype: torch.dtype, device: str, rounds: int) -> dict[str, Any]:
    """Few rows, inside CUDA graphs of 16 calls on 16 inputs each; microseconds a call."""
    inputs = [torch.randn(rows, vocab, device=device, dtype=dtype) for _ in range(16)]
    targets = torch.randint(vocab, (rows,), device=device)
    others = _peers("decode", inputs[0])
    per_input = [_forward(x, targets, others) for x in inputs]
    replays: Calls = {}
    for name in per_input[0]:
        try:
            replays[name] = in_one_graph([calls[name] for calls in per_input])
        except Exception as error:
            print(f"  {name} is not captured: {peers.one_line(error)}", flush=True)
    times = medians(replays, device, rounds)
    microseconds = {name: round(time * 1000 / len(inputs), 3) for name, time in times.items()}
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
