"""What a section is given, and the words in which it answers."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

from samebits.report.case import FAILED, PASSED, SKIPPED, Case

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
}
_BITS = {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.int8}
_PATH = re.compile(r"(?<![\w./:])/(?:[\w.+-]+/)+")


class Context(NamedTuple):
    """One run's options, the bar to move, and what a section leaves beside its cases."""

    device: str
    quick: bool
    seed: int
    root: Path | None  # of the repository, where there is one
    stage: object  # stage(name, total) -> context manager of tick(steps=1, note=None)
    commands: list[str]  # that do the same outside the report
    attachments: dict[str, Any]  # plain data, kept whole beside the cases

    def attach(self, name: str, data: Any) -> None:
        """Keep plain data in ``data/NAME.json``."""
        self.attachments[name] = data

    @property
    def on_cuda(self) -> bool:
        """True where `device` is a GPU."""
        return torch.device(self.device).type == "cuda"


def differing(actual: torch.Tensor, expected: torch.Tensor) -> int:
    """Elements whose bits differ; signed zeros and the patterns of NaN count."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise ValueError(
            f"{list(actual.shape)} {actual.dtype} cannot be compared with "
            f"{list(expected.shape)} {expected.dtype}"
        )
    words = _BITS[actual.element_size()]
    left, right = (x.detach().contiguous().view(words) for x in (actual, expected))
    return int((left != right).sum())


def same_bits(actual: torch.Tensor, expected: torch.Tensor, **labels) -> Case:
    """A case that is passed when no bit differs."""
    count = differing(actual, expected)
    reason = f"{count} of {expected.numel()} elements differ" if count else ""
    status = FAILED if count else PASSED
    return Case(status=status, value=count, tolerance=0, unit="differing elements", reason=reason, **labels)


def judged(passed: bool, reason: str, **labels) -> Case:
    """A case that is passed or, for `reason`, failed."""
    return Case(status=PASSED if passed else FAILED, reason="" if passed else reason, **labels)


def skipped(reason: str, **labels) -> Case:
    """A case that was not measured."""
    return Case(status=SKIPPED, reason=plain(reason), **labels)


def plain(text: str, limit: int = 300) -> str:
    """The first lines of a message as one line, without the folders of this machine."""
    return _PATH.sub("", " ".join(text.split()))[:limit]
