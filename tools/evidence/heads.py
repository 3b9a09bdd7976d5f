"""linear_logp as evidence: rows in batches against the whole, layouts and budgets, and the CPU in bits.

Targets are few, so that the CPU can compute any row of grad_weight from the statistics of all rows and the
columns of the targets alone.
"""

import base64
import hashlib
import zlib
from typing import Any

import torch

import samebits as sb
from samebits.check.probe.profiled import observed_kernels, others, ours

from . import inputs
from .bits import differing_rows, words
from .head_cases import Case

OPS = torch.ops.samebits
BATCHES = (1, 2, 7, 64, 255, 257, 4096, 8192)
SAMPLES = 8  # rows, and columns that are nobody's target
RESULTS = ("logp", "lse", "entropy", "row_max", "row_sum", "row_entropy_sum")


def forward(case: Case, weight: torch.Tensor, at: torch.Tensor) -> dict[str, torch.Tensor]:
    """Everything the forward pass gives the rows numbered `at`."""
    results = OPS.linear_logp_forward(
        case.matrix("a", at), weight, case.targets(at), None, True, True, True, case.contract, 0
    )
    return dict(zip(RESULTS, results, strict=False))


def backward(case, weight, at, targets, statistics, wanted) -> list[torch.Tensor]:
    """(grad_hidden, grad_weight), as far as they are wanted."""
    stats = [statistics[name] for name in ("row_max", "row_sum", "row_entropy_sum")]
    return list(OPS.linear_logp_backward(
        case.matrix("a", at), weight, targets, None, *stats, *case.upstreams(at), *wanted, False,
        case.contract, None,
    )[:2])  # fmt: skip


def sampled_rows(case: Case) -> list[int]:
    """Row numbers spread over the case."""
    return sorted({i * (case.rows - 1) // (SAMPLES - 1) for i in range(SAMPLES)})


def sample(case: Case, device: str) -> dict[str, torch.Tensor]:
    """Outputs and grad_hidden of the sampled rows, computed from these alone."""
    at = torch.tensor(sampled_rows(case), device=device)
    weight = case.weight(torch.arange(case.vocab, device=device))
    results = forward(case, weight, at)
    results["grad_hidden"] = backward(case, weight, at, case.targets(at), results, (True, False))[0]
    return {name: value.cpu() for name, value in results.items()}


def sampled_columns(case: Case, device: str) -> torch.Tensor:
    """The targets, and some columns that are nobody's."""
    others = torch.arange(SAMPLES, device=device) * (case.vocab // SAMPLES) + 1
    return torch.cat([case.target_ids(device), others])


def columns(case: Case, statistics: dict[str, torch.Tensor], device: str) -> torch.Tensor:
    """grad_weight of the sampled columns, which needs no others once all rows' statistics are known."""
    at = torch.arange(case.rows, device=device)
    statistics = {name: value.to(device) for name, value in statistics.items()}
    return backward(
        case, case.weight(sampled_columns(case, device)), at, case.choices(at), statistics, (False, True)
    )[1].cpu()


def digests(tensor: torch.Tensor) -> list[str]:
    """SHA-256 of the raw bits of each row."""
    return [hashlib.sha256(words(row).numpy().tobytes()).hexdigest()[:32] for row in tensor]


def sha256(tensor: torch.Tensor) -> str:
    return hashlib.sha256(words(tensor).cpu().numpy().tobytes()).hexdigest()


def _packed(tensor: torch.Tensor) -> str:
    return base64.b64encode(zlib.compress(words(tensor.cpu()).numpy().tobytes(), 9)).decode()


def _differ(left: torch.Tensor, right: torch.Tensor) -> int:
    return differing_rows(left.reshape(len(left), -1), right.reshape(len(right), -1))


def _invariances(case: Case, weight, whole, gradients) -> dict[str, int]:
    """Rows that differ between ways of computing the same on one device."""
    device = weight.device
    every = torch.arange(case.rows, device=device)
    found: dict[str, int] = {}
    for size in (b for b in BATCHES if b < case.rows):
        for first in {0, case.rows - size}:
            at = every[first : first + size]
            part = forward(case, weight, at)
            part["grad_hidden"] = backward(case, weight, at, case.targets(at), part, (True, False))[0]
            count = sum(_differ(part[n], v[at]) for n, v in {**whole, "grad_hidden": gradients[0]}.items())
            found[f"batch of {size}"] = found.get(f"batch of {size}", 0) + count
    found["forward repeated"] = sum(_differ(v, whole[n]) for n, v in forward(case, weight, every).items())
    again = backward(case, weight, every, case.targets(every), whole, (True, True))
    found["repeated"] = sum(_differ(a, b) for a, b in zip(again, gradients, strict=True))
    found |= _layouts(case, weight, whole, gradients[0])
    live = every[case.choices(every) >= 0]
    packed = {name: value[live] for name, value in whole.items()}
    alone = backward(case, weight, live, case.targets(live), packed, (False, True))[1]
    found["packed against padded, grad_weight"] = _differ(alone, gradients[1])
    found |= _half_masked(case, weight, whole, gradients[0])
    if case.dtype == "bfloat16" and case.contract == "auto" and _has_library(case, weight):
        found["forward against cuBLASLt and logp"] = _library(case, weight, whole)
    if not case.entropy:
        half = case.rows * case.vocab  # bytes: about half of the rows of 16-bit probabilities
        for memory in ("recompute", half, "save"):
            leaves = [case.matrix("a", every).requires_grad_(), weight.clone().requires_grad_()]
            results = sb.linear_logp(*leaves, case.targets(every), return_lse=True, contract=case.contract,
                                     memory=memory)  # fmt: skip
            through = torch.autograd.grad(results, leaves, case.upstreams(every)[:2])
            found[f"memory {memory}"] = sum(_differ(a, b) for a, b in zip(through, gradients, strict=True))
            found[f"memory {memory}, training against rollout"] = sum(
                _differ(value.detach(), whole[name])
                for name, value in results._asdict().items()
                if name in whole
            )
    return found


def _half_masked(case: Case, weight, whole, grad_hidden) -> dict[str, int]:
    """Rows that differ when about half of them, scattered, take no part, and when the others come alone."""
    every = torch.arange(case.rows, device=weight.device)
    masked = inputs.hashed(case.seed, "direction", every, torch.zeros_like(every)) & 1 == 0
    targets = case.targets(every).masked_fill(masked, -100)
    live = every[targets >= 0]
    results = OPS.linear_logp_forward(
        case.matrix("a", every), weight, targets, None, True, True, True, case.contract, 0
    )
    among = dict(zip(whole, results, strict=False))
    padded = backward(case, weight, every, targets, among, (True, True))
    alone = backward(case, weight, live, targets[live], {n: v[live] for n, v in among.items()}, (False, True))
    dead = every[targets < 0]
    wanted = {"lse": -torch.inf, "row_max": -torch.inf}  # of rows that take no part; everything else is +0
    return {
        "half masked": _differ(padded[0][live], grad_hidden[live])
        + sum(_differ(v[live], whole[n][live]) for n, v in among.items()),
        "half masked, rows that take no part": sum(
            _differ(v[dead], torch.full_like(v[dead], wanted.get(n, 0)))
            for n, v in {**among, "grad_hidden": padded[0]}.items()
        ),
        "half masked against packed, grad_weight": _differ(padded[1], alone[1]),
    }


def _has_library(case: Case, weight) -> bool:
    """Whether the library's product is one of the engines."""
    one = case.matrix("a", torch.zeros(1, dtype=torch.int64, device=weight.device))
    return "cublaslt" in sb.plan("matmul", one, weight.t(), contract="tc16").provenance.get("engines", ())


def _library(case: Case, weight, whole) -> int:
    """Rows of logp, lse and entropy that differ from those of logits by the library's product."""
    every = torch.arange(case.rows, device=weight.device)
    count = 0
    for at in every.split(8192):
        logits = sb.matmul(case.matrix("a", at), weight.t(), contract="tc16", out_dtype=torch.float32,
                           backend="cublaslt")  # fmt: skip
        results = sb.logp(logits, case.targets(at), return_lse=True, return_entropy=True)
        count += sum(_differ(v, whole[n][at]) for n, v in results._asdict().items())
    return count


def _layouts(case: Case, weight, whole, grad_hidden) -> dict[str, int]:
    """Rows of results and of grad_hidden that differ: with a leading shape, listed, gathered."""
    device = weight.device
    every = torch.arange(case.rows, device=device)
    drawn = inputs.hashed(case.seed, "families", every, torch.zeros_like(every)) & ((1 << 60) - 1)
    some = drawn.argsort()[: max(1, case.rows // 3)]  # in no order
    last = min(300, case.rows // 3 * 3)
    listed_targets = case.targets(every)
    upstream = case.upstreams(every)

    def differing(hidden, targets, at, into, **options) -> int:
        leaf = hidden.requires_grad_()
        results = sb.linear_logp(leaf, weight, targets, return_lse=True, return_entropy=True,
                                 contract=case.contract, **options)  # fmt: skip
        used = [(v, u) for v, u in zip(results, upstream, strict=True) if u is not None]
        flows = [torch.zeros_like(v).reshape(-1).index_copy(0, into, u[at]).view_as(v) for v, u in used]
        (gradient,) = torch.autograd.grad([v for v, _ in used], leaf, flows)
        return _differ(gradient.reshape(-1, case.size)[into], grad_hidden[at]) + sum(
            _differ(value.detach().reshape(-1)[into], whole[name][at])
            for name, value in results._asdict().items()
        )

    first = every[:last]
    hidden = case.matrix("a", every)
    return {
        f"leading shape [3, {last // 3}]": differing(
            hidden[:last].view(3, -1, case.size), listed_targets[:last].view(3, -1), first, first
        ),
        "a random third of the rows, listed": differing(hidden, listed_targets, some, some, rows=some),
        "a random third of the rows, gathered": differing(
            hidden[some], listed_targets[some], some, every[: len(some)]
        ),
    }


def record(case: Case, device: str) -> dict[str, Any]:
    """One case on a GPU; every count should be 0."""
    every = torch.arange(case.rows, device=device)
    weight = case.weight(torch.arange(case.vocab, device=device))
    whole = forward(case, weight, every)
    gradients = backward(case, weight, every, case.targets(every), whole, (True, True))
    rows = torch.tensor(sampled_rows(case), device=device)
    on_cpu = sample(case, "cpu")
    on_gpu = {**whole, "grad_hidden": gradients[0]}
    counts = {name: _differ(on_gpu[name][rows].cpu(), value) for name, value in on_cpu.items()}
    statistics = {n: v.cpu() for n, v in whole.items() if n.startswith("row_")}
    some = gradients[1][sampled_columns(case, device)].cpu()
    counts["grad_weight"] = _differ(some, columns(case, statistics, "cpu"))
    made = {
        "case": case._asdict(),
        "rows_that_differ_from_the_cpu": counts,
        "rows_that_differ_on_the_gpu": _invariances(case, weight, whole, gradients),
        "sha256": {n: sha256(v) for n, v in on_gpu.items()},
        "samples": {name: digests(value) for name, value in on_cpu.items()},
    }
    if case.kept:
        made["statistics"] = {name: _packed(value) for name, value in statistics.items()}
        made["columns"] = digests(some)
    return made


def kernel_record(device: str) -> dict[str, Any]:
    """The plan, and the kernels that one step runs."""
    case = Case("step", 9, "bfloat16", 512, 4096, 512)
    every = torch.arange(case.rows, device=device)
    leaves = [case.matrix("a", every).requires_grad_(),
              case.weight(torch.arange(case.vocab, device=device)).requires_grad_()]  # fmt: skip

    def step():
        torch.autograd.grad(sb.linear_logp(*leaves, case.targets(every)).sum(), leaves)

    names = observed_kernels(step, device)
    plan = sb.plan("linear_logp", *leaves, case.targets(every)).provenance
    return {"plan": plan, "kernels": ours(names), "other_kernels": others(names)}
