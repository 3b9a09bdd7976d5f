"""Invariance: the same rows in other batches, whose bits must be those of the whole."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from samebits.check.bits import difference, show
from samebits.check.errors import CheckError
from samebits.check.op.candidates import Candidate
from samebits.check.op.inputs import Inputs, Shape
from samebits.check.op.operators import PADDING, Operator

NO_ROW = -1  # stands for padding in a list of rows


class Trial(NamedTuple):
    """One way to cut the rows into batches."""

    name: str
    batches: tuple[Tensor, ...]
    """Numbers of rows; NO_ROW for rows that take no part."""
    whole: bool
    """All rows in one batch, in an order that sums over rows allow: those must have the same bits too."""
    leading: tuple[int, ...] = ()
    """Leading shape of the operands, if not flat."""

    def gradients(self, operator: Operator) -> tuple[str, ...]:
        """Operands whose gradients must keep their bits."""
        return tuple(name for name in operator.gradients if self.whole or name in operator.by_row)


def trials(shape: Shape, operator: Operator, candidate: Candidate, device: str, seed: int) -> list[Trial]:
    """Those that the candidate can take part in."""
    rows = torch.arange(shape.rows, device=device)
    generator = torch.Generator(device).manual_seed(seed)
    permuted = torch.randperm(shape.rows, generator=generator, device=device)
    at = max(1, shape.rows // 3)
    split = tuple(part for part in (rows[:at], rows[at:]) if len(part))
    alone = tuple(rows[row : row + 1] for row in sorted({0, at, shape.rows - 1}) if row < shape.rows)
    found = [Trial("repeat", (rows,), True), Trial("permutation", (permuted,), not operator.rowwise)]
    if operator.rowwise:
        found += [Trial("split", split, False), Trial("one row alone", alone, False)]
    if candidate.own:
        found.append(Trial("leading shape", (rows,), True, (shape.batch, shape.seq)))
        if operator.padded:
            with_padding = torch.stack((rows, torch.full_like(rows, NO_ROW)), -1).flatten()
            found.append(Trial("padding", (with_padding,), True))
    return found


class Run(NamedTuple):
    """Results of one call."""

    outputs: dict[str, Tensor]
    gradients: dict[str, Tensor]


def compute(candidate: Candidate, operator: Operator, inputs: Inputs, gradients: Sequence[str] = ()) -> Run:
    """All outputs without a graph; or the first one and the gradients of the operands named.

    Raises:
        CheckError: the candidate raised, or its result has no gradient.
    """
    if not gradients:
        with torch.no_grad():
            return Run(candidate.outputs(operator, inputs.operands, True), {})
    operands = {name: Parameter(t) if name in gradients else t for name, t in inputs.operands.items()}
    outputs = candidate.outputs(operator, operands, False)
    first = outputs[next(iter(operator.outputs))]
    try:
        upstream = inputs.upstream.to(first.dtype).reshape(first.shape)
        found = torch.autograd.grad(first, [operands[name] for name in gradients], upstream)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise CheckError(
            f"--candidate {candidate.name}: has no gradient of {operator.name}: {reason}"
        ) from None
    return Run({n: t.detach() for n, t in outputs.items()}, dict(zip(gradients, found, strict=True)))


def cut(operator: Operator, inputs: Inputs, trial: Trial) -> Iterator[tuple[Tensor, Inputs]]:
    """(rows, inputs) of each batch; padding holds the values of the first row."""
    for rows in trial.batches:
        at, nothing = rows.clamp(min=0), rows == NO_ROW
        operands = dict(inputs.operands)
        for name in operator.by_row:
            operands[name] = operands[name][at]
            if name in PADDING:
                operands[name] = operands[name].masked_fill(nothing, PADDING[name])
            if trial.leading:
                operands[name] = operands[name].unflatten(0, trial.leading)
        yield rows, Inputs(operands, inputs.upstream[at] if operator.rowwise else inputs.upstream)


class Difference(NamedTuple):
    """One result of one batch against the whole."""

    result: str
    elements: int
    differing: int
    first: str
    """Index, and both values with their bits; empty where nothing differs."""


def differences(
    operator: Operator, base: dict[str, Tensor], rows: Tensor, found: dict[str, Tensor]
) -> Iterator[Difference]:
    """Bits of the results of one batch of rows against those of the whole.

    Raises:
        CheckError: a result has another dtype or number of elements than in the whole.
    """
    kept = (rows != NO_ROW).nonzero().flatten()
    for name, part in found.items():
        whole = base[name]
        by_row = name in operator.by_row or (operator.rowwise and name in operator.outputs)
        shape = (len(rows), *whole.shape[1:]) if by_row else whole.shape
        if part.dtype != whole.dtype or part.numel() != torch.Size(shape).numel():
            raise CheckError(
                f"{name} is {part.dtype} {list(part.shape)} in a batch of {len(rows)} rows and "
                f"{whole.dtype} {list(whole.shape)} in the whole"
            )
        if by_row:
            whole, part = whole[rows[kept]], part.reshape(shape)[kept]
        counted = difference(whole, part)
        first = ""
        if counted.first >= 0:
            index = [int(i) for i in torch.unravel_index(torch.tensor(counted.first), whole.shape)]
            first = f"{index}: {show(whole, counted.first)} and {show(part, counted.first)}"
        yield Difference(name, counted.elements, counted.differing, first)
