"""The embedding as evidence: GPU against CPU in bits, the gradient against float64, the kernels that ran."""

import hashlib
from typing import Any, NamedTuple

import torch

import samebits as sb
from samebits.check.probe.profiled import observed_kernels, ours

from . import bits, inputs

OPS = torch.ops.samebits
SAMPLES = 6  # rows of the gradient recorded for each case
_PROMISED = ("embedding_forward", "embedding_backward")


class Case(NamedTuple):
    """One call. One id in `among` is any row, the others are one of the first `few`."""

    name: str
    seed: int
    dtype: str
    count: int
    vocab: int
    columns: int
    few: int
    among: int

    def ids(self, device: str) -> torch.Tensor:
        """int64 [count]; one in 64 is out of range."""
        at = torch.arange(self.count, device=device)
        drawn = inputs.hashed(self.seed, "targets", at, torch.zeros_like(at)) & ((1 << 60) - 1)
        ids = torch.where(drawn % self.among == 0, (drawn >> 20) % self.vocab, (drawn >> 20) % self.few)
        return torch.where((drawn >> 8) % 64 == 0, self.vocab + (drawn & 1) * -(self.vocab + 100), ids)

    def rows(self, stream: str, at: torch.Tensor) -> torch.Tensor:
        """Rows numbered `at` of the weight or of the upstream."""
        columns = torch.arange(self.columns, device=at.device)
        wide = torch.float64 if self.dtype == "float64" else torch.float32
        values = inputs.normal(inputs.hashed(self.seed, stream, at[:, None], columns[None, :]), wide)
        return (values * (1 / 3)).to(getattr(torch, self.dtype))  # so that sums have something to round


def cases(quick: bool = False) -> list[Case]:
    """Nemotron's width and others, rare and frequent repeats, every dtype."""
    scale = 16 if quick else 1
    return [
        Case("bfloat16_model", 1, "bfloat16", 16384 // scale, 131072 // scale, 2688, 64, 2),
        Case("bfloat16_one_id", 2, "bfloat16", 100_000 // scale, 35, 256, 1, 50),
        Case("float32", 3, "float32", 20_000 // scale, 1000, 264, 4, 2),
        Case("float16", 4, "float16", 20_000 // scale, 1000, 77, 4, 2),
        Case("float64", 5, "float64", 20_000 // scale, 1000, 77, 4, 2),
    ]


def gradient_rows(case: Case, wanted: list[int], device: str) -> torch.Tensor:
    """Rows of the gradient, each from the positions of its id alone."""
    ids, rows = case.ids("cpu"), []
    for row in wanted:
        at = (ids == row).nonzero().flatten()
        upstream = case.rows("direction", at).to(device)
        alone = OPS.embedding_backward(torch.zeros_like(at).to(device), upstream, 1)
        rows.append(alone[0].cpu())
    return torch.stack(rows)


def digest(tensor: torch.Tensor) -> str:
    """SHA-256 of the raw bits."""
    return hashlib.sha256(bits.words(tensor).numpy().tobytes()).hexdigest()


def sampled(case: Case, ids: torch.Tensor) -> list[int]:
    """The most frequent rows and some that occur."""
    counts = ids[(ids >= 0) & (ids < case.vocab)].bincount(minlength=case.vocab)
    present = counts.nonzero().flatten()
    spread = present[:: max(1, len(present) // SAMPLES)][: SAMPLES - 2].tolist()
    return sorted({*counts.topk(2).indices.tolist(), *spread})


def worst_share(gradient: torch.Tensor, ids: torch.Tensor, upstream: torch.Tensor) -> float:
    """The largest error against float64, in units of what the additions and the last rounding may make."""
    valid = (ids >= 0) & (ids < len(gradient))
    ids, upstream = ids[valid], upstream[valid].double()
    exact = torch.zeros_like(gradient, dtype=torch.float64).index_add(0, ids, upstream)
    size = torch.zeros_like(exact).index_add(0, ids, upstream.abs())
    steps = 1024 + ids.bincount(minlength=len(gradient)).double()[:, None] / 1024 + 1
    unit = 2.0**-53 if gradient.dtype == torch.float64 else 2.0**-24
    sums = steps * unit * size
    allowed = sums + (exact.abs() + sums) * torch.finfo(gradient.dtype).eps / 2
    share = (gradient.double() - exact).abs() / allowed
    return float(share[allowed > 0].max())


def record(device: str, quick: bool = False) -> dict[str, Any]:
    """Every case, and the kernels of one call; `problems` is empty when all is as promised."""
    records, problems = [], []
    for case in cases(quick):
        ids = case.ids(device)
        weight = case.rows("logits", torch.arange(case.vocab, device=device))
        upstream = case.rows("direction", torch.arange(case.count, device=device))
        on_gpu = OPS.embedding(ids, weight), OPS.embedding_backward(ids, upstream, case.vocab)
        worst = worst_share(on_gpu[1], ids, upstream)  # there, where float64 is quick
        ids, weight, upstream = ids.cpu(), weight.cpu(), upstream.cpu()
        on_cpu = OPS.embedding(ids, weight), OPS.embedding_backward(ids, upstream, case.vocab)
        rows, gradient = (value.cpu() for value in on_gpu)
        differing = {
            "rows": bits.differing_rows(rows, on_cpu[0]),
            "gradient": bits.differing_rows(gradient, on_cpu[1]),
        }
        wanted = sampled(case, ids)
        record = {
            "case": case._asdict(),
            "rows_that_differ_from_the_cpu": differing,
            "sha256": {"rows": digest(rows), "gradient": digest(gradient)},
            "worst_error_over_bound": worst,
            "samples": {str(row): digest(gradient[row]) for row in wanted},
        }
        records.append(record)
        problems += [f"{case.name}: {n} of {what} differ" for what, n in differing.items() if n]
        if not record["worst_error_over_bound"] <= 1:
            problems.append(
                f"{case.name}: the gradient is {record['worst_error_over_bound']} times too far off"
            )
    kernels = ours(observed_kernels(lambda: _both(case, device), device))
    for operator in _PROMISED:
        if not any(name.startswith(operator) for name in kernels):
            problems.append(f"embedding: {operator} did not run")
    plan = sb.plan("embedding", device=device).provenance
    return {"plan": plan, "kernels": kernels, "cases": records, "problems": problems}


def _both(case: Case, device: str) -> None:
    ids, upstream = case.ids(device), case.rows("direction", torch.arange(case.count, device=device))
    weight = case.rows("logits", torch.arange(case.vocab, device=device)).requires_grad_()
    torch.autograd.grad(sb.embedding(ids, weight), weight, upstream)


def differing_samples(record: dict[str, Any]) -> list[str]:
    """Rows of the gradient for which this machine's CPU gives other bits than were recorded."""
    case, samples = Case(**record["case"]), record["samples"]
    rows = gradient_rows(case, [int(row) for row in samples], "cpu")
    return [
        f"{case.name} gradient row {row}: other bits than recorded"
        for (row, recorded), values in zip(samples.items(), rows, strict=True)
        if digest(values) != recorded
    ]
