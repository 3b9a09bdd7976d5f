"""Bits as evidence: CPU against GPU, digests of whole outputs, sample rows in hex."""

import hashlib
from typing import Any

import torch

from samebits.check.bits import words

from . import inputs, operators
from .inputs import Case

SAMPLES = 8  # rows recorded for each case
_ELEMENTS = 1 << 25  # of logits held at a time


def _one_nan(name: str, value: torch.Tensor) -> torch.Tensor:
    """The composed path runs torch's own arithmetic, whose NaN is the hardware's: any NaN counts as one."""
    return torch.where(value.isnan(), torch.nan, value) if name == "curvature" else value


def chunks(case: Case, device: str):
    """Row numbers of the case, a bounded batch at a time."""
    size = max(1, _ELEMENTS // case.vocab)
    for first in range(0, case.rows, size):
        yield torch.arange(first, min(first + size, case.rows), device=device)


def differing_rows(left: torch.Tensor, right: torch.Tensor) -> int:
    """How many rows differ in any bit."""
    unequal = words(left) != words(right)
    return int(unequal.reshape(unequal.shape[0], -1).any(1).sum())


def sampled_rows(case: Case) -> list[int]:
    """Row numbers spread over the case, the same for whoever asks."""
    step = max(1, case.rows // SAMPLES)
    return sorted({min(case.rows - 1, i * step + (i * 7919) % step) for i in range(SAMPLES)})


def _hex(tensor: torch.Tensor) -> str:
    width = 2 * tensor.element_size()
    mask = (1 << (4 * width)) - 1
    return " ".join(f"{int(word) & mask:0{width}x}" for word in words(tensor).flatten().tolist())


def sample(case: Case, rows: list[int], device: str) -> list[dict[str, str]]:
    """The recorded form of a few rows, computed on `device`: short outputs in hex, of long ones a SHA-256 and
    the first, middle and last columns."""
    results = operators.outputs(case, inputs.make(case, torch.tensor(rows, device=device)))
    results = {name: _one_nan(name, value.cpu()) for name, value in results.items()}
    records = []
    for at, row in enumerate(rows):
        record: dict[str, Any] = {"row": row}
        for name, value in results.items():
            value = value[at]
            if value.dim() == 0 or value.numel() <= 2:
                record[name] = _hex(value)
            else:
                record[name] = hashlib.sha256(words(value).numpy().tobytes()).hexdigest()
                record[f"{name}_first_middle_last"] = _hex(value[[0, value.numel() // 2, -1]])
        records.append(record)
    return records


def record(case: Case, device: str) -> dict[str, Any]:
    """One case on a GPU: rows that differ from the CPU, digests of every output, sample rows."""
    differing: dict[str, int] = {}
    digests: dict[str, Any] = {}
    for rows in chunks(case, device):
        batch = inputs.make(case, rows)  # on the GPU: making them takes longer than all the rest on a CPU
        on_gpu = operators.outputs(case, batch)
        on_cpu = operators.outputs(case, batch.cpu())
        for name, value in on_gpu.items():
            value, expected = _one_nan(name, value.cpu()), _one_nan(name, on_cpu[name])
            differing[name] = differing.get(name, 0) + differing_rows(value, expected)
            digests.setdefault(name, hashlib.sha256()).update(words(value).numpy().tobytes())
    return {
        "case": {
            "name": case.name, "seed": case.seed, "rows": case.rows, "vocab": case.vocab,
            "dtype": case.dtype, "adversarial": case.adversarial, "options": case.options,
        },
        "rows_that_differ_from_the_cpu": differing,
        "sha256": {name: digest.hexdigest() for name, digest in digests.items()},
        "samples": sample(case, sampled_rows(case), device),
    }  # fmt: skip
