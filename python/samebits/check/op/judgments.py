"""The four judgments of one candidate."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from samebits.check.op.accuracy import judge, require_form
from samebits.check.op.candidates import Candidate
from samebits.check.op.inputs import Inputs, Shape
from samebits.check.op.operators import Operator
from samebits.check.op.trials import Difference, Run, compute, cut, differences, trials
from samebits.contracts import Cell, Profile


class Case(NamedTuple):
    """What is judged, on what, and by which cells."""

    operator: Operator
    candidate: Candidate
    dtype: str
    shape: Shape
    inputs: Inputs
    device: str
    seed: int
    profile: Profile

    def cell(self, judgment: str, name: str) -> tuple[Cell, dict]:
        """The cell of an output or gradient, and what a line says of it."""
        results = self.operator.outputs if judgment.startswith("forward") else self.operator.gradients
        kind, cell = results[name]
        found = self.profile.cell(judgment, kind, cell, self.dtype)
        return found, {"judgment": judgment, "class": kind, "output": name, "cell": found.place}


def steps(operator: Operator, gradients: bool) -> int:
    """How often `judgments` ticks, at most."""
    return 8 + len(operator.outputs) + gradients * len(operator.gradients)


def judgments(case: Case, gradients: bool, tick: Callable) -> list[dict]:
    """One line for each judgment and output or gradient, JSON-ready."""
    operator, inputs = case.operator, case.inputs
    tick(note="whole batch")
    forward = compute(case.candidate, operator, inputs)
    asked = tuple(operator.gradients) if gradients else ()
    backward = compute(case.candidate, operator, inputs, asked) if asked else Run({}, {})
    tick(note="reference")
    outputs, slopes = operator.exact(inputs)
    lines = []
    for judgment, found, exact in (
        ("forward_accuracy", forward.outputs, outputs),
        ("gradient_accuracy", backward.gradients, slopes),
    ):
        for name, actual in found.items():
            tick(note=f"{judgment.replace('_', ' ')}, {name}")
            of = inputs.upstream if found is forward.outputs else inputs.operands[name]
            require_form(case.candidate.name, name, actual, of.shape)
            cell, line = case.cell(judgment, name)
            lines.append(line | judge(actual, exact[name](), cell))
    return lines + _invariance(case, forward, backward, tick)


def _invariance(case: Case, forward: Run, backward: Run, tick: Callable) -> list[dict]:
    found: dict[tuple[str, str], dict[str, list[Difference]]] = {}

    def note(judgment: str, trial: str, all_: Iterable[Difference]) -> None:
        for one in all_:
            found.setdefault((judgment, one.result), {}).setdefault(trial, []).append(one)

    cases = trials(case.shape, case.operator, case.candidate, case.device, case.seed)
    for trial in cases:
        tick(note=trial.name)
        asked = trial.gradients(case.operator) if backward.gradients else ()
        for rows, inputs in cut(case.operator, case.inputs, trial):
            run = compute(case.candidate, case.operator, inputs)
            note("forward_invariance", trial.name,
                 differences(case.operator, forward.outputs, rows, run.outputs))  # fmt: skip
            if asked:
                run = compute(case.candidate, case.operator, inputs, asked)
                note("gradient_invariance", trial.name,
                     differences(case.operator, backward.gradients, rows, run.gradients))  # fmt: skip
    if backward.outputs:  # a graph changes no bits: what a trainer computes is what the rollout did
        rows = cases[0].batches[0]
        note("forward_invariance", "with gradients",
             differences(case.operator, forward.outputs, rows, backward.outputs))  # fmt: skip
    return [
        case.cell(judgment, name)[1] | _summary(by_trial)
        for (judgment, name), by_trial in sorted(found.items(), key=lambda item: item[0][0])
    ]


def _summary(by_trial: dict[str, list[Difference]]) -> dict:
    lines = [
        {
            "trial": trial,
            "elements": sum(one.elements for one in found),
            "differing": sum(one.differing for one in found),
            "first": next((one.first for one in found if one.first), ""),
        }
        for trial, found in by_trial.items()
    ]
    differing = sum(line["differing"] for line in lines)
    return {
        "elements": sum(line["elements"] for line in lines),
        "differing": differing,
        "trials": lines,
        "passed": differing == 0,
    }
