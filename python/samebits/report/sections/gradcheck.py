"""torch's own numerical checks of first and second derivatives, in float64."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import samebits as sb
from samebits.report.case import Case
from samebits.report.context import Context, judged

TITLE = "gradcheck and gradgradcheck"
ABOUT = (
    "torch.autograd.gradcheck and gradgradcheck in fp64: reverse, forward and batched modes against finite "
    "differences of the values. logp's forms of call are checked the same way in the section errors."
)
# torch's step is 1e-6: values carry some 1e-15, their differences 1e-9, and third derivatives add 1e-12.
TOLERANCE = 1e-7


class Check(NamedTuple):
    """A function of leaves, differentiable as often as torch likes."""

    operator: str
    case: str
    function: Callable[..., Tensor | tuple[Tensor, ...]]
    shapes: tuple[tuple[int, ...], ...]


def checks(device: str) -> list[Check]:
    """Every operator; the linear ones under a bent function, so that second derivatives are not zero."""
    targets = torch.tensor([2, 0, -100], device=device)
    ids = torch.tensor([1, 3, 1, -100, 0], device=device)
    temperature = torch.tensor([1.0, 0.5, 2.0], device=device)
    rows = torch.tensor([1, 0], device=device)

    def logp(logits: Tensor) -> tuple[Tensor, ...]:
        found = sb.logp(logits, targets, return_lse=True, return_entropy=True, temperature=temperature)
        return found.logp, torch.where(targets >= 0, found.lse, 0.0), found.entropy

    def head(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        found = sb.linear_logp(
            hidden, weight, targets, bias=bias, return_lse=True, return_entropy=True, temperature=temperature
        )
        return found.logp, torch.where(targets >= 0, found.lse, 0.0), found.entropy

    def selected(hidden: Tensor, weight: Tensor) -> Tensor:
        return sb.linear_logp(hidden, weight, targets, vocab_size=4, rows=rows)

    return [
        Check("logp", "logp, lse, entropy; temperatures", logp, ((3, 5),)),
        Check("linear_logp", "logp, lse, entropy; bias, temperatures", head, ((3, 4), (5, 4), (5,))),
        Check("linear_logp", "rows=, vocab_size", selected, ((3, 4), (5, 4))),
        Check("matmul", "sin of the product", lambda a, b: sb.matmul(a, b).sin(), ((4, 5), (5, 3))),
        Check("linear", "sin, bias", lambda x, w, b: sb.linear(x, w, b).sin(), ((4, 5), (3, 5), (3,))),
        Check(
            "embedding", "cube, an invalid id",
            lambda weight: sb.embedding(ids, weight, on_invalid="zero") ** 3, ((4, 3),),
        ),
    ]  # fmt: skip


def cases(context: Context) -> Iterator[Case]:
    """First and second order of every check."""
    near = {"atol": TOLERANCE, "rtol": TOLERANCE, "check_batched_grad": True}
    first = {**near, "check_forward_ad": True}
    second = {**near, "check_fwd_over_rev": True}
    made = checks(context.device)
    with context.stage("gradcheck", 2 * len(made)) as tick:
        for check in made:
            generator = torch.Generator().manual_seed(context.seed)
            leaves = [
                torch.randn(shape, generator=generator, dtype=torch.float64)
                .to(context.device)
                .requires_grad_()
                for shape in check.shapes
            ]
            for order, run, options in ((1, gradcheck, first), (2, gradgradcheck, second)):
                tick(note=f"{check.operator}, {run.__name__}")
                yield judged(
                    run(check.function, leaves, raise_exception=False, **options),
                    f"a derivative is beyond atol {TOLERANCE} and rtol {TOLERANCE}",
                    case=check.case, operator=check.operator, dtype="fp64", method=run.__name__, order=order,
                    tolerance=TOLERANCE, unit="atol and rtol",
                )  # fmt: skip
