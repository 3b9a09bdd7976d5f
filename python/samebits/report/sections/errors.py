"""Derivatives of logp, lse and entropy against exact ones: errors by precision, order and method."""

import argparse
import time
from collections.abc import Iterator

from samebits.check import autodiff
from samebits.demo.threads import torch_threads
from samebits.report.case import Case
from samebits.report.context import Context, judged

TITLE = "Errors by precision, order and method"
ABOUT = (
    "Derivatives of logp, lse and entropy of orders 1 to 8, by four ways of nesting reverse and forward "
    "mode, in every precision and form of call, against exact derivatives; the tolerance of every element is "
    "counted from the roundings on its way. PyTorch's own derivatives and finite differences judge these."
)


def cases(context: Context) -> Iterator[Case]:
    """One case for each precision, form of call, output, method and order."""
    orders = 3 if context.quick else 8
    context.commands.append(
        f"python -m samebits.check autodiff --max-order {orders} --device {context.device} "
        f"--seed {context.seed} --json"
    )
    options = argparse.Namespace(max_order=orders, seed=context.seed, device=context.device)
    begun = time.monotonic()
    with torch_threads(1):  # the tensors are small
        found = autodiff.run(options, context)
    each = (time.monotonic() - begun) / len(found["entries"])
    for entry in found["entries"]:
        yield judged(
            entry["passed"],
            _why(entry),
            case=f"{entry['output']}, {entry['form']}",
            operator="logp",
            dtype=entry["precision"],
            method=entry["method"],
            order=entry["order"],
            value=entry["error"],
            tolerance=entry["tolerance"],
            share=entry["share"],
            unit="absolute error",
            seconds=each,
        )


def _why(entry: dict) -> str:
    if entry["error"] is None:
        return "no finite error: a result is NaN or infinite, or torch's own check refused it"
    return "an element is beyond its tolerance"
