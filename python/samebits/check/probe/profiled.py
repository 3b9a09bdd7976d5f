"""What torch's profiler saw of one call: operators of the dispatcher and, on a GPU, kernels."""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

_OURS = re.compile(r"samebits::cuda::(?:\(anonymous namespace\)::)?(\w+)")
_SUPPORT = ("select_rows", "find_invalid")  # read the row list and the ids; no arithmetic on logits
_OWN = "samebits.check.probe: not a part of the path"


def ours(names: list[str]) -> list[str]:
    """Our kernels among those named, without those that only look at ids."""
    return sorted({match[1] for match in map(_OURS.search, names) if match} - set(_SUPPORT))


def others(names: list[str]) -> list[str]:
    """The other kernels, their names cut where templates make them long."""
    return [name[:120] for name in names if not _OURS.search(name)]


def not_of_the_path():
    """A context for what the probe itself has to compute, such as the sum that makes a scalar of a result."""
    return record_function(_OWN)


@dataclass(frozen=True)
class Observed:
    """One call."""

    samebits: Counter[str]
    """Our operators, by name, and how often each ran."""
    aten: Counter[str]
    """torch's operators, those inside ours left out."""
    large: Counter[str]
    """Of these, those with an operand that has as many elements as the path calls large."""
    kernels: list[str]
    """Kernels on the device."""

    @classmethod
    def nothing(cls) -> "Observed":
        """Of a call that did not run."""
        return cls(Counter(), Counter(), Counter(), [])


def observe(call: Callable[[], Any], device: str, large: int) -> Observed:
    """One call, after another one, so that compilation and first uses leave no trace."""
    on_cuda = torch.device(device).type == "cuda"
    call()
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_cuda
    _wait(on_cuda)
    with profile(activities=activities, record_shapes=True, acc_events=True) as recording:
        call()
        _wait(on_cuda)
    found = Observed.nothing()
    kernels = set()
    for event in recording.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels.add(event.name)
            continue
        space, _, name = event.name.partition("::")
        if space not in ("samebits", "aten") or _inside(event):
            continue
        if space == "samebits":
            found.samebits[name] += 1
            continue
        found.aten[name] += 1
        if any(prod(shape) >= large for shape in event.input_shapes or () if shape):
            found.large[name] += 1
    found.kernels.extend(sorted(kernels))
    return found


def observed_kernels(call: Callable[[], Any], device: str = "cuda") -> list[str]:
    """Names of the kernels that one call runs."""
    return observe(call, device, 1).kernels


def _inside(event) -> bool:
    """Whether the event belongs to one of our operators or to the probe."""
    parent = event.cpu_parent
    while parent is not None:
        if parent.name == _OWN or parent.name.startswith("samebits::"):
            return True
        parent = parent.cpu_parent
    return False


def _wait(on_cuda: bool) -> None:
    if on_cuda:
        torch.cuda.synchronize()
