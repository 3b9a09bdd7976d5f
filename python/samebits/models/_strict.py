"""The gates of a strict operator: geometry, contract and device. Each says what was found and what may be."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from .. import _checks
from .._plan import plan

DEVICE_CONTRACTS = ("proven", "twin")


@dataclass(frozen=True)
class Geometry:
    """What a matrix of the model must be."""

    vocab: int
    """Rows."""
    hidden: int
    """Columns."""
    dtype: torch.dtype = torch.bfloat16
    """Of the elements."""

    def check(self, weight: Tensor) -> None:
        """TypeError or ValueError unless `weight` is such a matrix."""
        _checks.tensor("weight", weight)
        if weight.dtype != self.dtype:
            found, wanted = _checks.name(weight.dtype), _checks.name(self.dtype)
            raise TypeError(f"weight: is {found}; must be {wanted}, that of the model")
        if weight.shape != (self.vocab, self.hidden):
            raise ValueError(
                f"weight: has shape {list(weight.shape)}; must be [{self.vocab}, {self.hidden}], "
                "vocabulary and hidden size of the model"
            )


def check_checkpoint(name: str) -> str:
    """`name` itself, when it is an id that says which weights: NAME@REVISION."""
    if not isinstance(name, str):
        raise TypeError(f"checkpoint: is a {type(name).__name__}; must be NAME@REVISION")
    if not re.fullmatch(r"[^\s@]+@[^\s@]+", name):
        raise ValueError(
            f"checkpoint: is {name!r}; must be NAME@REVISION, "
            "such as 'nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16@bf77c31'"
        )
    return name


def check_device_contract(value: str) -> str:
    """`value` itself, when it is one of DEVICE_CONTRACTS."""
    if value not in DEVICE_CONTRACTS:
        raise ValueError(f"device_contract: is {value!r}; may be 'proven' or 'twin'")
    return value


def device_problem(device: torch.device, device_contract: str) -> str:
    """What stands against computing tc16 on `device` as asked; empty when nothing does."""
    if device_contract == "twin":
        if device.type == "cpu":
            return ""
        return f"device_contract: is 'twin', which a cpu computes, and weight is on {device}; may be 'proven'"
    if device.type == "cuda":
        return _probe_problem(device)
    return (
        f"device_contract: is 'proven', and weight is on {device}, which has no tensor cores to prove; "
        "may be 'twin' on a cpu, for audits: the same bits, slower"
    )


# A refusal is not kept: a probe that could not run may run later.
_proven: set[torch.device] = set()


@torch.compiler.assume_constant_result
def _probe_problem(device: torch.device) -> str:
    if device in _proven:
        return ""
    found = plan("linear_logp", dtype=torch.bfloat16, device=device, contract="tc16")
    if not found.can_run:
        return "; ".join(found.refusals)
    probe = found.provenance.get("device_probe", "not made")
    if not str(probe).startswith("passed"):
        return f"device_contract: is 'proven', and the probe of {device} is {probe!r}; must have passed"
    _proven.add(device)
    return ""


def require_device(device: torch.device, device_contract: str) -> None:
    """RuntimeError, with the reason, where `device_problem` finds one."""
    problem = device_problem(device, device_contract)
    if problem:
        raise RuntimeError(problem)
