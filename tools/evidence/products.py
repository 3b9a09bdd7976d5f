"""Products as evidence: every engine of the GPU against the others and the CPU, batches against the whole.

Element (line, k) of an operand, a row of `a` or a column of `b`, is a hash of (seed, line, k), so any line
can be made on its own.
"""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import torch

import samebits as sb

from .bits import words
from .inputs import hashed, normal, shift_right

BATCHES = (1, 2, 7, 64, 255, 257, 4096)
SAMPLE = (4, 16)  # rows and columns recorded in hex
COMPARED = (16, 256)  # rows and columns that the CPU computes when evidence is taken


@dataclass(frozen=True)
class ProductCase:
    """One product, ``[rows, depth] @ [depth, columns]``."""

    name: str
    seed: int
    rows: int
    depth: int
    columns: int
    dtype: str
    contract: str = "auto"
    layout: str = "nt"  # of a and b: t where k is not (a), or is (b), the dense axis
    adversarial: bool = True

    @property
    def out_dtype(self) -> torch.dtype:
        """Sums as they are, without rounding to 16 bits."""
        return torch.float64 if self.dtype == "float64" else torch.float32


def cases(quick: bool = False) -> list[ProductCase]:
    """Usual sizes of a head and its gradients, long sums, ragged ones, every dtype and layout."""
    shapes = (
        ("bfloat16", "auto", "nt", 8192, 2688, 16384), ("bfloat16", "auto", "nt", 257, 2688, 131072),
        ("bfloat16", "auto", "nn", 4096, 16384, 2688), ("bfloat16", "auto", "tn", 2688, 131072, 512),
        ("bfloat16", "auto", "tt", 1001, 777, 1003), ("float16", "auto", "nt", 4096, 2688, 8192),
        ("float16", "auto", "tn", 1024, 65600, 1024), ("bfloat16", "fma", "nt", 1024, 2688, 4096),
        ("float32", "auto", "nn", 4096, 2688, 4096), ("float32", "auto", "tn", 333, 40000, 1001),
        ("float64", "auto", "nt", 1024, 2688, 1024),
    )  # fmt: skip
    made = []
    for index, (dtype, contract, layout, rows, depth, columns) in enumerate(shapes):
        if quick:
            rows, columns = min(rows, 64), min(columns, 96)
        for adversarial in (False, True):
            name = f"{dtype}_{contract}_{layout}_{rows}x{depth}x{columns}{'_hard' * adversarial}"
            made.append(ProductCase(name, 2000 + 2 * index + adversarial, rows, depth, columns, dtype,
                                    contract, layout, adversarial))  # fmt: skip
    return made


def lines(case: ProductCase, side: str, which: torch.Tensor) -> torch.Tensor:
    """The lines numbered (int64) of operand "a" or "b", ``[len(which), depth]``, on that tensor's device."""
    k = torch.arange(case.depth, device=which.device)
    wide = torch.float64 if case.dtype == "float64" else torch.float32
    bits = hashed(case.seed, side, which[:, None], k[None, :])
    x = normal(bits, wide)
    if case.adversarial:
        family = (hashed(case.seed, "families", which, torch.full_like(which, ord(side))) & 7)[:, None]
        spread = torch.where(family < 2, shift_right(bits, 7) % 24 - 12, 0)
        x = torch.ldexp(x, spread.to(torch.int32))
        x = torch.where(family == 2, x.abs(), x)  # one sign: truncation drifts
        x = torch.where(family == 3, x * 2.0**-60, x)  # around the smallest results
        special = (family == 4) & (shift_right(bits, 11) % 1024 == 0)
        values = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0], dtype=wide, device=which.device)
        x = torch.where(special, values[shift_right(bits, 3) & 3], x)
    return x.to(getattr(torch, case.dtype))


def operands(
    case: ProductCase, rows: torch.Tensor, columns: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """a and b of those rows and columns, as they lie in the case."""
    a, b = lines(case, "a", rows), lines(case, "b", columns).t()
    return (a.t().contiguous().t() if case.layout[0] == "t" else a,
            b.contiguous() if case.layout[1] == "n" else b)  # fmt: skip


def multiply(case: ProductCase, a: torch.Tensor, b: torch.Tensor, backend: str | None = None) -> torch.Tensor:
    """The product in the type of its sums."""
    return sb.matmul(a, b, contract=case.contract, out_dtype=case.out_dtype, backend=backend)


def _differing(left: torch.Tensor, right: torch.Tensor) -> int:
    return int((words(left) != words(right)).sum())


def _spread(count: int, most: int) -> list[int]:
    return sorted({i * (count - 1) // max(most - 1, 1) for i in range(min(count, most))})


def sample(case: ProductCase, device: str) -> list[str]:
    """The sampled rows over the sampled columns in hex, computed on `device` from these alone."""
    picked = [
        torch.tensor(_spread(n, m), device=device)
        for n, m in zip((case.rows, case.columns), SAMPLE, strict=True)
    ]
    bits = words(multiply(case, *operands(case, *picked)).cpu())
    width = 2 * bits.element_size()
    mask = (1 << (4 * width)) - 1
    return [" ".join(f"{int(word) & mask:0{width}x}" for word in row) for row in bits.tolist()]


def record(case: ProductCase, device: str) -> dict[str, Any]:
    """One case on a GPU: elements that differ between engines, batches and from the CPU; digest; sample."""
    a, b = operands(case, torch.arange(case.rows, device=device), torch.arange(case.columns, device=device))
    whole = multiply(case, a, b)
    engines: dict[str, Any] = {}
    for engine in sb.plan("matmul", a, b, contract=case.contract).provenance["engines"]:
        try:
            engines[engine] = _differing(multiply(case, a, b, engine), whole)
        except RuntimeError as error:
            engines[engine] = str(error)
    batches = {
        size: sum(_differing(multiply(case, a[at : at + size], b), whole[at : at + size])
                  for at in {0, case.rows - size})
        for size in BATCHES
        if size < case.rows
    }  # fmt: skip
    rows, columns = (
        torch.tensor(_spread(n, m)) for n, m in zip((case.rows, case.columns), COMPARED, strict=True)
    )
    on_cpu = multiply(case, *operands(case, rows, columns))
    on_gpu = whole[rows.to(device)][:, columns.to(device)].cpu()
    return {
        "case": asdict(case),
        "engines": engines,
        "elements_that_differ_between_batches": batches,
        "elements_that_differ_from_the_cpu": _differing(on_gpu, on_cpu),
        "sha256": hashlib.sha256(words(whole).cpu().numpy().tobytes()).hexdigest(),
        "sample": sample(case, device),
    }


def problems(record: dict[str, Any]) -> list[str]:
    """Everything in a record that is not zero and no refusal."""
    counts = {
        f"between batches of {size}": n for size, n in record["elements_that_differ_between_batches"].items()
    }
    counts |= {f"through {name}": n for name, n in record["engines"].items() if isinstance(n, int)}
    counts["from the CPU"] = record["elements_that_differ_from_the_cpu"]
    return [f"{record['case']['name']}: {n} elements differ {where}" for where, n in counts.items() if n]
