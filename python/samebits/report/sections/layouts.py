"""The same rows laid out in other ways: repeated, in chunks, in another order, between padding."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from samebits.demo.threads import torch_threads
from samebits.report.case import FAILED, PASSED, Case
from samebits.report.context import DTYPES, Context, differing, skipped
from samebits.report.problems import Problem, Rows, problems

TITLE = "Layouts"
ABOUT = (
    "Values and gradients of every operator on the same rows in another layout, compared bit by bit with one "
    "call on the whole batch. Gradients of what the rows share are compared where the rows keep their order "
    "and ride in one call."
)
LAYOUTS = (
    "repeat", "chunk", "reorder", "padding", "strides", "rows=", "memory", "threads", "other device",
)  # fmt: skip


class Layout(NamedTuple):
    """Batches to be called one after the other, and where each row's results are then found."""

    batches: list[Rows]
    back: Tensor | None = None
    options: tuple[tuple[str, Any], ...] = ()
    threads: int | None = None
    shared: bool = False  # gradients of shared operands are comparable


def cases(context: Context) -> Iterator[Case]:
    """Values and gradients, for each operator, dtype and layout."""
    total = len(DTYPES) * 4 * len(LAYOUTS)
    with context.stage("layouts", total) as tick:
        for name, dtype in DTYPES.items():
            for problem in problems(dtype, context.device, context.seed, context.quick):
                reference = problem.evaluate([problem.rows])
                for method in LAYOUTS:
                    tick(note=f"{problem.operator}, {name}, {method}")
                    yield from compared(problem, name, method, reference, context)


def compared(problem: Problem, dtype: str, method: str, reference, context: Context) -> Iterator[Case]:
    """One layout against the whole."""
    labels = {"operator": problem.operator, "dtype": dtype, "method": method}
    reason = not_for(problem, method, context)
    if reason:
        yield skipped(reason, case="values and gradients", **labels)
        return
    if method == "other device":
        found = [
            tuple({name: value.to(context.device) for name, value in part.items()} for part in results)
            for results in [problem.moved("cpu").evaluate([problem.moved("cpu").rows])]
        ]
        whole = True
    else:
        tried = layouts(problem, method)
        found = [evaluated(problem, layout) for layout in tried]
        whole = all(layout.shared for layout in tried)
    values: dict[str, int] = {}
    gradients: dict[str, int] = {}
    for of_rows, of_shared in found:
        for name, value in {**of_rows, **(of_shared if whole else {})}.items():
            counts = gradients if name.startswith("gradient") else values
            expected = reference[0][name] if name in reference[0] and name in of_rows else reference[1][name]
            counts[name] = counts.get(name, 0) + differing(value, expected)
    for what, counts in (("values", values), ("gradients", gradients)):
        if counts:
            yield counted(
                f"{what}: {', '.join(n.removeprefix('gradient of ') for n in counts)}", counts, labels
            )
        else:
            yield skipped(
                "its only gradient is that of what the rows share, which depends on their order and calls",
                case=what, **labels,
            )  # fmt: skip


def counted(what: str, counts: dict[str, int], labels: dict[str, str]) -> Case:
    """A case from the number of differing elements of each tensor."""
    total = sum(counts.values())
    reason = ", ".join(f"{name}: {count} elements differ" for name, count in counts.items() if count)
    return Case(
        case=what, status=FAILED if total else PASSED, value=total, tolerance=0, unit="differing elements",
        reason=reason, **labels,
    )  # fmt: skip


def not_for(problem: Problem, method: str, context: Context) -> str:
    """Why a layout does not apply, or nothing."""
    if method in ("rows=", "memory") and method.removesuffix("=") not in problem.options:
        return f"{problem.operator} has no option {method.removesuffix('=')}"
    if method == "threads" and context.on_cuda:
        return "threads belong to the CPU"
    if method == "other device" and not context.on_cuda:
        return "this report was made without a CUDA device"
    return ""


def layouts(problem: Problem, method: str) -> list[Layout]:
    """The ways of one kind."""
    rows = problem.rows
    count = len(rows["upstream"])
    device = rows["upstream"].device
    everything = torch.arange(count, device=device)
    in_order = problem.ids is not None  # padding takes no part in sums over rows
    if method == "repeat":
        return [Layout([rows], shared=True)] * 2
    if method == "chunk":
        sizes = [1, 7, 20]
        parts = everything.split([*sizes, count - sum(sizes)])
        return [Layout([problem.at(part) for part in parts])]
    if method == "reorder":
        order = everything.flip(0).roll(3)
        return [Layout([problem.at(order)], back=order.argsort())]
    if method in ("padding", "rows="):
        at = 2 * everything + everything // 3
        wide = {name: _spread(value, at, problem.padding[name]) for name, value in rows.items()}
        options = ()
        if method == "rows=":
            wide[problem.ids] = wide[problem.ids].clamp(min=0)  # valid ids that are not asked for
            asked = everything[rows[problem.ids] >= 0]
            options = (("rows", at[asked.flip(0)]),)
        return [Layout([wide], back=at, options=options, shared=in_order)]
    if method == "strides":
        return [Layout([{name: _strided(value) for name, value in rows.items()}], shared=True)]
    if method == "memory":
        budgets = ("save", "recompute", 1 << 16)
        return [Layout([rows], options=(("memory", budget),), shared=True) for budget in budgets]
    return [Layout([rows], threads=threads, shared=True) for threads in (1, 3)]


def evaluated(problem: Problem, layout: Layout) -> tuple[Rows, Rows]:
    """The results of a layout, in the order of the whole batch."""
    with torch_threads(layout.threads or torch.get_num_threads()):
        of_rows, of_shared = problem.evaluate(layout.batches, **dict(layout.options))
    if layout.back is not None:
        of_rows = {name: value[layout.back] for name, value in of_rows.items()}
    return of_rows, of_shared


def _spread(value: Tensor, at: Tensor, fill: float) -> Tensor:
    wide = value.new_full((int(at[-1]) + 3, *value.shape[1:]), fill)
    wide[at] = value
    return wide


def _strided(value: Tensor) -> Tensor:
    """The same elements with gaps between rows, and an address off by one element."""
    columns = value.shape[1] if value.dim() > 1 else 1
    room = value.new_zeros(len(value) * (columns + 5) + 1)[1:]
    view = room.view(len(value), columns + 5)[:, :columns]
    view.copy_(value.view(len(value), columns))
    return view if value.dim() > 1 else view[:, 0]
