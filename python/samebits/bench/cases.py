"""What is measured: an operator, a shape, a dtype, a place and a pass; its inputs; and who takes part."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import table
from .errors import BenchError

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}
MODES = {
    "fwd": "forward",
    "bwd": "backward",
    "fwdbwd": "forward and backward",
    "decode": "forward of few tokens, several inputs in a row; on a GPU in a CUDA graph",
}


@dataclass(frozen=True)
class Case:
    """One line of the plan. `vocab` and `hidden` may be 0 (none); `threads` counts on the CPU alone."""

    op: str
    mode: str
    tokens: int
    vocab: int
    hidden: int
    dtype: str
    device: str
    threads: int
    cold: bool
    seed: int = 0

    @property
    def torch_dtype(self) -> torch.dtype:
        """What torch calls the dtype."""
        return DTYPES[self.dtype]

    @property
    def torch_device(self) -> torch.device:
        """What torch calls the device."""
        return torch.device(self.device)

    @property
    def backward(self) -> bool:
        """Whether gradients are computed."""
        return self.mode in ("bwd", "fwdbwd")

    @property
    def title(self) -> str:
        """One line for people."""
        return table.call(vars(self))


class Inputs(NamedTuple):
    """Operands, which may require gradients; integer ids or a mask; and ones in the shape of the result."""

    operands: tuple[Tensor, ...]
    ids: Tensor | None
    upstream: Tensor | None


Function = Callable[..., Tensor]  # of the operands and then, where there are any, the ids
Ceilings = dict[str, list[Callable[[], Any]]]  # the fastest of the alternatives counts


@dataclass(frozen=True)
class Contestant:
    """Somebody who computes what an operator computes.

    Attributes:
        name: as in tables.
        make: imports what is needed and gives the function.
        package: what must be installed, as Python imports it.
        refusal: why it does not do a case; empty if it does.
        note: what makes it differ from a plain call.
        sign: -1 where it gives losses instead of log-probabilities.
        summed: it can only give the sum over the tokens.
        overwrites: it writes into its operands, so it has copies of its own.
        on_request: takes part only where it is named.
        least: what it cannot do without, if that is more than the least of the case.
        reproducible: it promises equal bits whatever the batch.
    """

    name: str
    make: Callable[[], Function]
    package: str = "torch"
    refusal: Callable[[Case], str] = lambda case: ""
    note: str = ""
    sign: int = 1
    summed: bool = False
    overwrites: bool = False
    on_request: bool = False
    least: Callable[[Case], dict[str, int]] | None = None
    reproducible: bool = False


@dataclass(frozen=True)
class Operator:
    """One operator.

    Attributes:
        summary: formula and shapes.
        sizes: which of "vocab" and "hidden" it has, beside tokens.
        inputs: of a case, the number of the copy (decode has several), and copy 0, to share weights with.
        contestants: samebits first.
        ceilings: what bounds a case from below; every one is measured.
        least: how often each of them is needed at least.
        work: bytes moved or operations done, at least.
        unit: "B" or "FLOP"; empty where neither means anything.
        storage: elements of inputs, results, gradients and the ceilings' buffers.
    """

    summary: str
    sizes: tuple[str, ...]
    inputs: Callable[[Case, int, Inputs | None], Inputs]
    contestants: tuple[Contestant, ...]
    ceilings: Callable[[Case, Inputs], Ceilings]
    least: Callable[[Case], dict[str, int]]
    work: Callable[[Case], int]
    unit: str
    storage: Callable[[Case], int]


def normal(case: Case, *shape: int, scale: float = 1.0, copy: int = 0) -> Tensor:
    """Random numbers that depend on the seed, the shape, the copy and the kind of device alone."""
    generator = torch.Generator(case.device).manual_seed(case.seed + copy)
    values = torch.randn(*shape, generator=generator, device=case.device, dtype=case.torch_dtype)
    return values if scale == 1.0 else values.mul_(scale)


def random_ids(case: Case, copy: int = 0) -> Tensor:
    """``[tokens]`` of the vocabulary."""
    generator = torch.Generator(case.device).manual_seed(case.seed + 1000 + copy)
    return torch.randint(case.vocab, (case.tokens,), generator=generator, device=case.device)


def require_room(case: Case, needed: int) -> None:
    """Raises BenchError if the inputs, results and ceilings of a case cannot be in memory."""
    device = case.torch_device
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    else:
        free = _available_memory()
    if needed > free:
        raise BenchError(
            f"{case.title}: needs at least {needed / 2**30:.1f} GiB, and {case.device} has "
            f"{free / 2**30:.1f} GiB free; fewer --tokens or a smaller --vocab or --hidden would do"
        )


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024 * int(line.split()[1])
    return 1 << 62
