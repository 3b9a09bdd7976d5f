"""Records of heads as a trainer would write them: made on a GPU, audited by the samebits command on a CPU.

The inputs are those of Nemotron-3-Nano's size, from integers alone: every machine can make them again.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file

import samebits as sb

from . import machine

HIDDEN, VOCAB = 2688, 131072
OPTIONS: dict[str, Any] = {"temperature": 0.7, "ignore_index": -100}


class Case(NamedTuple):
    """One record."""

    name: str
    tokens: int
    contract: str


CASES = (Case("tc16", 1024, "auto"), Case("tc16-decode", 1, "auto"), Case("fma", 256, "fma"))


def mixed(first: int, count: int, salt: int, device: str) -> torch.Tensor:
    """32 random bits for each of the numbers from `first` on."""
    value = (torch.arange(first, first + count, device=device) * 2654435761 + salt) & 0xFFFFFFFF
    value = ((value ^ (value >> 15)) * 2246822519) & 0xFFFFFFFF
    value = ((value ^ (value >> 13)) * 3266489917) & 0xFFFFFFFF
    return value ^ (value >> 16)


def _matrix(rows: int, scale: float, salt: int, device: str) -> torch.Tensor:
    out = torch.empty(rows, HIDDEN, dtype=torch.bfloat16, device=device)
    step = 1024  # rows at a time, so that the integers stay small
    for first in range(0, rows, step):
        count = min(step, rows - first)
        values = (mixed(first * HIDDEN, count * HIDDEN, salt, device) & 0xFFFF) - 32768
        out[first : first + count] = (values.float() * scale).bfloat16().view(count, HIDDEN)
    return out


def hidden_states(tokens: int, device: str = "cpu") -> torch.Tensor:
    """bfloat16 [tokens, H], within 2 of 0."""
    return _matrix(tokens, 2.0**-14, 1, device)


def weight(device: str = "cpu") -> torch.Tensor:
    """bfloat16 [V, H], within 1/16 of 0: 704 MB."""
    return _matrix(VOCAB, 2.0**-19, 2, device)


def targets(tokens: int, device: str = "cpu") -> torch.Tensor:
    """int64 [tokens]; about one in four is masked, a single one is not."""
    if tokens == 1:
        return torch.full((1,), 5, device=device)
    ids = mixed(0, tokens, 3, device) % VOCAB
    return torch.where(mixed(0, tokens, 4, device) % 4 == 0, -100, ids)


def record(folder: Path, device: str) -> None:
    """Writes the records of this device as `audit/NAME.safetensors`."""
    (folder / "audit").mkdir(exist_ok=True)
    head = weight(device)
    run = json.dumps(machine.describe(device))
    for case in CASES:
        operands = (hidden_states(case.tokens, device), head, targets(case.tokens, device))
        options = {**OPTIONS, "contract": case.contract}
        out = sb.linear_logp(*operands, return_lse=True, return_entropy=True, **options)
        provenance = json.dumps(sb.plan("linear_logp", *operands, **options).provenance)
        tensors = {"logp": out.logp, "lse": out.lse, "entropy": out.entropy, "targets": operands[2]}
        metadata = {"samebits.provenance": provenance, "samebits.run": run}
        save_file(tensors, folder / "audit" / f"{case.name}.safetensors", metadata)
