"""The rows of one audit, and batches made of them in any order, with rows of padding, in any strides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from samebits.check.errors import CheckError
from samebits.check.invariance.targets import Target, by_row

PADDING = -1  # stands for a row of padding in a list of rows
FILLERS = {"zeros": 0.0, "large values": 96.0}


def _apart(x: Tensor) -> Tensor:
    wide = x.new_zeros((*x.shape[:-1], x.shape[-1] + 3))
    return wide[..., : x.shape[-1]].copy_(x)


def _every_other(x: Tensor) -> Tensor:
    return x.new_zeros((x.shape[0], 2, *x.shape[1:]))[:, 0].copy_(x)


def _shifted(x: Tensor) -> Tensor:
    return x.new_zeros(x.numel() + 1)[1:].view(x.shape).copy_(x)


# The same values, stored otherwise. What has one axis has no columns to move apart or to transpose.
STRIDES: dict[str, Callable[[Tensor], Tensor]] = {
    "one element off": _shifted,
    "every other row": _every_other,
    "rows apart": _apart,
    "transposed": lambda x: x.t().contiguous().t(),
}


@dataclass(frozen=True)
class Batch:
    """How the target is called once."""

    rows: tuple[int, ...]
    """Which row stands where; PADDING for rows of none."""
    filler: str = "zeros"
    """What rows of padding hold: a name of FILLERS."""
    operand: str = ""
    """The operand that is stored otherwise, if any."""
    strides: str = ""
    """How: a name of STRIDES."""
    threads: int = 1
    other: str = ""
    """The call to make instead: a name of Target.others."""


@dataclass(frozen=True)
class Rows:
    """Operands of the whole batch, and the upstream gradient of its result."""

    operands: dict[str, Tensor]
    upstream: Tensor

    @property
    def count(self) -> int:
        """Rows of the whole batch."""
        return self.upstream.shape[0]

    def gather(self, target: Target, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        """Operands and upstream of one batch; the upstream of padding is zero."""
        at = torch.tensor(batch.rows, dtype=torch.int64, device=self.upstream.device)
        padding = at == PADDING
        made = {}
        for name, whole in self.operands.items():
            value = whole
            if by_row(name):
                filler = target.padding_id if name == "targets" else FILLERS[batch.filler]
                value = _with_padding(whole[at.clamp(min=0)], padding, filler)
            made[name] = STRIDES[batch.strides](value) if name == batch.operand else value
        return made, _with_padding(self.upstream[at.clamp(min=0)], padding, 0)

    def cropped(self, columns: int, depth: int) -> "Rows":
        """Those columns of the vocabulary or of b, and that much of the hidden size, alone."""
        operands = dict(self.operands)
        for name, value in operands.items():
            if name == "targets":
                operands[name] = value % columns
            elif name in ("logits", "b"):
                operands[name] = value[:, :columns] if name == "logits" else value[:depth, :columns]
            else:
                operands[name] = value[:columns, :depth] if name == "weight" else value[:, :depth]
        operands = {name: value.contiguous() for name, value in operands.items()}
        upstream = self.upstream if self.upstream.dim() == 1 else self.upstream[:, :columns].contiguous()
        return replace(self, operands=operands, upstream=upstream)


def _with_padding(values: Tensor, padding: Tensor, filler: float) -> Tensor:
    if not padding.any():
        return values
    return torch.where(padding.view(-1, *[1] * (values.dim() - 1)), torch.full_like(values, filler), values)


def draw(kind: str, shape: Sequence[int], dtype: torch.dtype, device: str, seed: int) -> Rows:
    """Normal operands; logits of a standard deviation of about 3, from all vocabulary ids.

    Args:
        kind: of targets.KINDS.
        shape: rows, columns (vocabulary) and depth (hidden size).
        dtype: of the floating operands.
        device: where they live.
        seed: of the generator of that device.
    """
    rows, columns, depth = shape
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*size: int, scale: float = 1.0) -> Tensor:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        return (torch.randn(size, generator=generator, device=device, dtype=wide) * scale).to(dtype)

    targets = torch.randint(columns, (rows,), generator=generator, device=device)
    if kind == "logp":
        return Rows({"logits": normal(rows, columns, scale=3.0), "targets": targets}, normal(rows).float())
    if kind == "head":
        weight = normal(columns, depth, scale=3.0 * depth**-0.5)
        return Rows(
            {"hidden": normal(rows, depth), "weight": weight, "targets": targets}, normal(rows).float()
        )
    return Rows({"a": normal(rows, depth), "b": normal(depth, columns)}, normal(rows, columns))


class Refused(Exception):
    """The target raised."""


def compute(target: Target, whole: Rows, batch: Batch, gradients: bool) -> dict[str, Tensor]:
    """The result of one call, and the gradients of its floating operands.

    Raises:
        Refused: the target raised.
        CheckError: it returned something that has no row for each row of the batch.
    """
    operands, upstream = whole.gather(target, batch)
    leaves = {n: x.detach().requires_grad_() for n, x in operands.items() if x.is_floating_point()}
    if gradients:
        operands |= leaves
    call = target.others[batch.other] if batch.other else target.call
    before = torch.get_num_threads()
    torch.set_num_threads(batch.threads)
    try:
        with torch.set_grad_enabled(gradients):
            value = call(*(operands[name] for name in target.operands))
        _check_result(target, value, len(batch.rows))
        found = {"result": value.detach()}
        if gradients:
            grads = torch.autograd.grad(value, list(leaves.values()), upstream.to(value.dtype))
            found |= {f"grad_{name}": g for name, g in zip(leaves, grads, strict=True)}
        return found
    except CheckError:
        raise
    except Exception as error:  # any: the function is a stranger's
        text = str(error).strip() or "no reason given"
        raise Refused(f"{type(error).__name__}: {text.splitlines()[0]}") from error
    finally:
        torch.set_num_threads(before)


def _check_result(target: Target, value, rows: int) -> None:
    if not isinstance(value, Tensor):
        raise CheckError(f"--target {target.name}: returned a {type(value).__name__}; must be a tensor")
    dims = 2 if target.kind == "product" else 1
    if value.dim() != dims or value.shape[0] != rows or not value.is_floating_point():
        form = "[rows, columns]" if dims == 2 else "[rows]"
        raise CheckError(
            f"--target {target.name}: returned {value.dtype} {list(value.shape)} for {rows} rows; must be "
            f"floating {form}, as --kind {target.kind} says"
        )
