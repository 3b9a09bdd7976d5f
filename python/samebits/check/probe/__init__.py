"""`python -m samebits.check probe`: what really ran on each path, against what the plan promised."""

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import torch

import samebits as sb
from samebits.check.errors import CheckError
from samebits.check.probe.operators import OPERATORS
from samebits.check.probe.paths import Operator, Path
from samebits.check.probe.profiled import Observed, observe, others, ours
from samebits.check.probe.promises import problems
from samebits.check.probe.report import print_report
from samebits.check.runtime import describe, libraries

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "observed_paths", "print_report", "run"]

SUMMARY = "which operators and kernels really ran on each path, against what the plan promised"
EXAMPLE = "python -m samebits.check probe --device cuda --json"
_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What only this check has."""
    parser.add_argument("--op", nargs="+", choices=OPERATORS, default=[*OPERATORS], metavar="OP",
                        help=f"operators: {', '.join(OPERATORS)} (default all)")  # fmt: skip
    parser.add_argument("--dtype", choices=_DTYPES, default="bf16",
                        help="of the floating operands (default bf16)")  # fmt: skip
    parser.add_argument("--backend", help="force one of samebits.backends() by name, in plans and calls")
    parser.add_argument("--path", nargs="+", metavar="WORDS", default=[],
                        help="only paths whose name holds one of these (default all)")  # fmt: skip


def run(options: argparse.Namespace, stages) -> dict:
    """Every path of every operator."""
    asked = {"device": options.device, "dtype": _DTYPES[options.dtype], "backend": options.backend}
    torch.manual_seed(options.seed)
    paths = []
    for name in options.op:
        paths += _paths(name, asked, options.path, stages)
    if not paths:
        raise CheckError(
            f"--path {' '.join(options.path)}: no path of {', '.join(options.op)} has such a name"
        )
    return {
        "dtype": options.dtype,
        "backend": options.backend,
        "runtime": describe(options.device),
        "libraries": libraries(),
        "paths": paths,
        "problems": [f"{path['op']}, {path['path']}: {text}" for path in paths for text in path["problems"]],
        "passed": not any(path["problems"] for path in paths),
    }


def _paths(name: str, asked: dict[str, Any], words: list[str], stages) -> list[dict[str, Any]]:
    refusals = sb.plan(name, **asked).refusals
    if refusals:
        raise CheckError(f"{name}: {refusals[0]}")
    operator = OPERATORS[name](asked)
    chosen = [path for path in operator.paths() if not words or any(word in path.name for word in words)]
    with stages.stage(name, len(chosen)) as tick:
        return list(observed_paths(operator, chosen, lambda path: tick(note=path.name)))


def observed_paths(operator: Operator, paths: list[Path], tick: Callable[[Path], None]):
    """One record for each path: plans, what ran, and `problems`, empty when every promise was kept."""
    device = operator.options["device"]
    on_cuda = torch.device(device).type == "cuda"
    for path in paths:
        tick(path)
        names = (operator.op, *(operator.composed_of if path.kind == "composed" else ()))
        asked = operator.options | path.options
        plans = [sb.plan(name, **asked) for name in names]
        record: dict[str, Any] = {"op": operator.op, "path": path.name, "kind": path.kind}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of the profiler and the compiler
                seen = observe(path.call, device, operator.large)
        except Exception as error:  # a path that cannot run has not kept its promise
            text = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
            seen, found = Observed.nothing(), [f"did not run: {text}"]
        else:
            found = problems(path, seen, plans, on_cuda, asked["backend"])
        yield record | {
            "plans": {plan.op: list(plan.kernels) for plan in plans},
            "provenance": plans[0].provenance,
            "operators": dict(sorted(seen.samebits.items())),
            "torch_on_large_tensors": dict(sorted(seen.large.items())),
            "torch": dict(sorted(seen.aten.items())),
            "samebits_kernels": ours(seen.kernels),
            "other_kernels": others(seen.kernels),
            "problems": found,
        }
