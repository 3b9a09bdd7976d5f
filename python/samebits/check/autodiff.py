"""`python -m samebits.check autodiff`: derivatives of logp, lse and entropy against exact ones."""

import argparse
from collections.abc import Iterator

import torch
from torch import Tensor

from samebits.check import finite
from samebits.check.autodiff_report import print_report, summary
from samebits.check.cases import FORMS, PRECISIONS, VOCAB, Case, Inputs, make_inputs
from samebits.check.entry import Entry, Labels, compare
from samebits.check.errors import CheckError
from samebits.check.methods import METHODS, NESTED, nested, outermost_reverse, reverse
from samebits.check.references import OUTPUTS, Jets, torch_outputs
from samebits.check.tolerance import Tolerance

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "print_report", "run"]

SUMMARY = "derivatives of every order against exact ones, in every precision, with counted tolerances"
EXAMPLE = "python -m samebits.check autodiff --max-order 8 --json"
MOST = 12  # the jets take 3^(order - 1) products of rows
NESTED_MOST = 8  # nested transforms double their work with every level
OTHERS_MOST = 5  # of lse and entropy, and of forms other than dense, in nested transforms


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What only this check has."""
    parser.add_argument(
        "--max-order", type=int, default=8, metavar="N",
        help=f"highest order, 1 to {MOST}; above {NESTED_MOST} reverse mode in fp64 alone (default 8)",
    )  # fmt: skip


def run(options: argparse.Namespace, stages) -> dict:
    """All entries, and the worst of each precision, order and method."""
    if not 1 <= options.max_order <= MOST:
        raise CheckError(f"--max-order {options.max_order}: may be 1 to {MOST}")
    orders = options.max_order
    inputs = make_inputs(max(orders - 1, min(orders, NESTED_MOST)), options.seed, options.device)
    entries: list[Entry] = []
    for precision in PRECISIONS:
        cases = [Case(inputs, precision, form, output) for form in FORMS for output in OUTPUTS]
        with stages.stage(precision.name, len(cases) * len(METHODS)) as tick:
            for case in cases:
                plain = case.form == "dense" and precision.dtype == torch.float64
                highest = orders if plain else min(orders, NESTED_MOST)
                jets = case.jets(case.directions[: max(highest - 1, min(orders, NESTED_MOST))])
                tolerance = Tolerance.of(case)
                for method in METHODS:
                    tick(note=f"{case.output}, {case.form}")
                    entries += check(case, method, highest, jets, tolerance)
    with stages.stage("references", len(OUTPUTS) * 2) as tick:
        for output in OUTPUTS:
            tick(note=f"{output}, PyTorch's own")
            entries += check_reference(inputs, output, orders)
            tick(note=f"{output}, gradcheck")
            entries += finite.check(inputs, output)
    return {
        "max_order": orders,
        "rows": len(inputs.targets),
        "vocab": VOCAB,
        "passed": all(entry.passed for entry in entries),
        "summary": summary(entries),
        "entries": [entry._asdict() for entry in entries],
    }


def check(case: Case, method: str, orders: int, jets: Jets, tolerance: Tolerance) -> Iterator[Entry]:
    """One case by one method, at every order."""
    labels = Labels(case.precision.name, method, case.output, case.form)
    if method == "reverse":
        for order, actual in enumerate(reverse(case, case.logits, case.directions, orders), 1):
            exact, bound = prefix(jets, order - 1)
            yield compare(labels, order, actual, exact, tolerance.gradient(order, exact, bound))
        return
    plain = case.output == "logp" and case.form == "dense"
    orders = min(orders, NESTED_MOST if plain else OTHERS_MOST)
    for order, actual in enumerate(nested(method, case, case.logits, case.directions, orders), 1):
        yield compare(labels, order, actual, *along(case, method, order, jets, tolerance))


def prefix(jets: Jets, order: int) -> tuple[Tensor, Tensor]:
    """The gradient differentiated along the first `order` directions, and the sizes of its terms."""
    return jets.gradient[2**order - 1], jets.bound[2**order - 1]


def along(case: Case, method: str, order: int, jets: Jets, tolerance: Tolerance) -> tuple[Tensor, Tensor]:
    """(exact, tolerance) ``[rows]`` of a nested derivative along the first `order` directions."""
    last = case.directions[order - 1]
    gradient, bound = prefix(jets, order - 1)
    exact, size = (gradient * last).sum(-1), (bound * last.abs()).sum(-1)
    sums = sum(NESTED[method][level % len(NESTED[method])] == "r" for level in range(order))
    allowed = tolerance.along(order, size, sums)
    summed_at = outermost_reverse(method, order)
    if summed_at is not None:
        others = 2**order - 1 - 2**summed_at
        allowed = allowed + tolerance.summed(
            case.directions[summed_at], jets.gradient[others], jets.bound[others]
        )
    return exact, allowed


def check_reference(inputs: Inputs, output: str, orders: int) -> Iterator[Entry]:
    """PyTorch's composition in float64 against the jets: two references that share nothing."""
    case = Case(inputs, finite.FP64, "dense", output)
    jets, tolerance = case.jets(case.directions[: orders - 1]), Tolerance.of(case)
    ids = case.targets.clamp(0, VOCAB - 1)

    def composed(logits: Tensor) -> Tensor:
        return torch.where(case.participating, torch_outputs(logits, ids)[output] * case.weights, 0.0)

    labels = Labels("fp64", "PyTorch", output, "dense")
    for order, actual in enumerate(reverse(composed, case.logits, case.directions, orders), 1):
        exact, bound = prefix(jets, order - 1)
        yield compare(labels, order, actual, exact, bound * tolerance.composed(order))
