"""First and second derivatives against finite differences of the values alone, in float64."""

from collections.abc import Iterator

import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.autograd.gradcheck import GradcheckError
from torch.func import jvp

from samebits.check.cases import FORMS, PRECISIONS, Case, Inputs, few_columns
from samebits.check.entry import Entry, Labels, compare

STEP = 2.0**-13
# torch's own step is 1e-6: values carry some 1e-15, their differences 1e-9, third derivatives add 1e-12.
GRADCHECK_TOLERANCE = 1e-7
FP64 = next(precision for precision in PRECISIONS if precision.name == "fp64")


def check(inputs: Inputs, output: str) -> Iterator[Entry]:
    """Every form of call: a central difference along a direction, gradcheck, gradgradcheck."""
    for form in FORMS:
        yield difference(Case(inputs, FP64, form, output))
        yield from by_torch(Case(few_columns(inputs), FP64, form, output))


def difference(case: Case) -> Entry:
    """``(f(x + s v) - f(x - s v)) / 2 s`` against jvp.

    It differs from the derivative by at most ``s^2 / 6`` times the third one within s, whose terms grow there
    by less than a tenth, and by the errors of two values over 2 s: ulps of the numbers that are added up to
    them (docs/contract.md, Accuracy: two, and 2e-6 * 2^-29).
    """
    x, direction = case.logits, case.directions[0]
    _, computed = jvp(case, (x,), (direction,))
    measured = (case(x + STEP * direction) - case(x - STEP * direction)) / (2 * STEP)
    third = (case.jets([direction, direction]).bound[3] * direction.abs()).sum(-1)
    # The argument x + s v is rounded, scaled, shifted by the maximum; the value is weighted.
    numbers = 4 * (x * case.inverse_temperature()).abs().amax(-1) + 20
    error = case.weights.abs() * (numbers * 2.0**-53 + 2e-6 * 2.0**-29)
    tolerance = torch.where(case.participating, 1.1 * third * STEP**2 / 6 + error / STEP, 0.0)
    labels = Labels(case.precision.name, "finite difference", case.output, case.form)
    return compare(labels, 1, computed, measured, tolerance)


def by_torch(case: Case) -> Iterator[Entry]:
    """torch's own numerical checks: reverse, forward and batched, first and second order."""
    leaf = case.logits.detach().requires_grad_()
    near = {"atol": GRADCHECK_TOLERANCE, "rtol": GRADCHECK_TOLERANCE, "check_batched_grad": True}
    first = {**near, "check_forward_ad": True, "check_batched_forward_grad": True}
    second = {**near, "check_fwd_over_rev": True, "check_rev_over_rev": True}
    for order, run, options in ((1, gradcheck, first), (2, gradgradcheck, second)):
        try:
            passed = run(case, (leaf,), **options)
        except GradcheckError:
            passed = False
        labels = Labels(case.precision.name, run.__name__, case.output, case.form)
        yield Entry(*labels, order, None, GRADCHECK_TOLERANCE, None, None, None, passed)
