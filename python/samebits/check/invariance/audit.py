"""One audit: every trial against the whole batch, in one dtype."""

from dataclasses import asdict, dataclass

import torch

import samebits as sb
from samebits.check.errors import CheckError
from samebits.check.invariance.batches import PADDING, Batch, Refused, Rows, compute, draw
from samebits.check.invariance.compare import compare
from samebits.check.invariance.shrink import Failure, Shrinker
from samebits.check.invariance.targets import Target
from samebits.check.invariance.trials import AXES, Trial, outputs, trials


@dataclass
class Line:
    """What was found of one output along one axis."""

    dtype: str
    axis: str
    output: str
    calls: int = 0
    refused: int = 0
    elements: int = 0
    differing: int = 0
    bits: int = 0


@dataclass(frozen=True)
class Request:
    """What the command line asked for."""

    target: Target
    shape: tuple[int, int, int]
    device: str
    seed: int
    gradients: bool
    threads: list[int]
    repeats: int


def audit(request: Request, dtype: torch.dtype, stages) -> dict:
    """Lines of the table, refusals and the smallest failure (None where no bit differs) in one dtype.

    Raises:
        CheckError: the target cannot be called on the whole batch, or not any more at the end.
    """
    target, name = request.target, str(dtype).removeprefix("torch.")
    whole = draw(target.kind, request.shape, dtype, request.device, request.seed)
    todo = trials(target, request.shape[0], request.threads, request.repeats,
                  not request.device.startswith("cuda"), request.seed)  # fmt: skip
    base = Batch(tuple(range(request.shape[0])), threads=request.threads[0])
    with stages.stage(f"{target.name}, {name}", len(todo) + 1) as tick:
        tick(note="the whole batch")
        try:
            reference = compute(target, whole, base, request.gradients)
        except Refused as error:
            raise CheckError(f"--target {target.name}, {name}: {error}") from None
        lines = {
            (axis, output): Line(name, axis, output)
            for axis in AXES
            for output in outputs(target, request.gradients)
            if any(trial.axis == axis for trial in todo)
        }
        refusals, failures = [], []
        for trial in todo:
            tick(note=f"{trial.axis}: {trial.what}")
            try:
                found = compute(target, whole, trial.batch, request.gradients)
            except Refused as error:
                if trial.axis == "repeat":
                    raise CheckError(
                        f"--target {target.name}, {name}: the same call worked at first, and now: {error}"
                    ) from None
                refusals.append({"dtype": name, "axis": trial.axis, "what": trial.what, "reason": str(error)})
                found = None
            failures += _count(request, trial, base, reference, found, lines)
    smallest = _smallest(request, whole, failures, stages) if failures else None
    return {
        "lines": [asdict(line) for line in lines.values() if line.calls],
        "refusals": refusals,
        "smallest": None if smallest is None else describe(request, name, smallest),
        "provenance": _provenance(request, whole),
    }


def _count(request: Request, trial: Trial, base: Batch, reference, found, lines) -> list[Failure]:
    """Adds one trial to its lines; its failures."""
    failures = []
    for output, left in reference.items():
        line = lines[trial.axis, output]
        if found is None:
            line.calls, line.refused = line.calls + 1, line.refused + 1
            continue
        compared = compare(request.target, output, left, found[output], base, trial.batch)
        if compared is None:
            continue
        counted, where = compared
        line.calls += 1
        line.elements += counted.elements
        line.differing += counted.differing
        line.bits += counted.bits
        if where:
            failures.append(Failure(trial.axis, output, base, trial.batch, *request.shape[1:], where))
    return failures


def _smallest(request: Request, whole: Rows, failures: list[Failure], stages) -> Failure:
    """The failure of the fewest rows, made smaller; where a mere repeat fails, that is the one to show."""
    first = min(failures, key=lambda failure: (failure.axis != "repeat", len(failure.second.rows)))
    with stages.stage("the smallest failing case", None) as tick:
        return Shrinker(request.target, whole, request.gradients, tick).smallest(first)


def _provenance(request: Request, whole: Rows) -> dict | None:
    target = request.target
    if not target.op:
        return None
    return sb.plan(target.op, *(whole.operands[name] for name in target.operands)).provenance


def describe(request: Request, dtype: str, failure: Failure) -> dict:
    """A failure as plain data, with all that makes it again."""
    columns, depth = failure.columns, failure.depth
    on_cpu = not request.device.startswith("cuda")
    shapes = {
        "logp": {"logits": ["rows", columns]},
        "head": {"hidden": ["rows", depth], "weight": [columns, depth]},
        "product": {"a": ["rows", depth], "b": [depth, columns]},
    }[request.target.kind]
    return {
        "dtype": dtype,
        "axis": failure.axis,
        "output": failure.output,
        "row": failure.found.row,
        "element": failure.found.element,
        "values": [failure.found.left, failure.found.right],
        "batches": [_batch(batch, on_cpu) for batch in (failure.first, failure.second)],
        "shapes": shapes,
        "made_from": {"shape": list(request.shape), "seed": request.seed, "device": request.device},
    }


def _batch(batch: Batch, on_cpu: bool) -> dict:
    shown = {name: value for name, value in asdict(batch).items() if value != ""}
    if PADDING not in batch.rows:
        shown.pop("filler")
    if not on_cpu:
        shown.pop("threads")
    return shown | {"rows": ["padding" if row == PADDING else row for row in batch.rows]}
