"""`python -m samebits.check op`: any implementation of an operator against binary64, and against itself."""

import argparse
import os
from pathlib import Path

import torch

import samebits
from samebits.check.errors import CheckError
from samebits.check.op.candidates import find, names
from samebits.check.op.inputs import Shape
from samebits.check.op.judgments import Case, judgments, steps
from samebits.check.op.operators import DTYPES, OPERATORS, Operator
from samebits.check.op.report import print_report
from samebits.contracts import PACKAGED, ContractError, Profile, load
from samebits.demo.threads import torch_threads

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "print_report", "run"]

SUMMARY = "accuracy and invariance of an operator, the library's or any other, forward and gradients"
EXAMPLE = (
    "python -m samebits.check op --op linear_logp --candidate cuda-sm90 --device cuda --dtype bf16 --batch 2 "
    "--seq 16 --vocab 131072 --hidden 2688 --check-grad --json"
)
ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What only this check has."""
    add = parser.add_argument
    add("--list", action="store_true", help="show operators, candidates and cells, and check nothing")
    add("--op", default=ALL, choices=(*OPERATORS, ALL), metavar="NAME",
        help=f"what to check: {', '.join(OPERATORS)}, or {ALL} (default)")  # fmt: skip
    add("--candidate", default="auto", metavar="NAME",
        help="what is judged: auto (default), a backend, cuda-NAME (an engine or architecture of the plan), "
             "torch, torch-cross-entropy, or module:function")  # fmt: skip
    add("--dtype", default=ALL, choices=(*DTYPES, ALL), help=f"of the operands (default {ALL})")
    add("--contract", default="auto", choices=("auto", "fma", "tc16"),
        help="of the library's own products (default auto)")  # fmt: skip
    add("--batch", type=_size, default=2, metavar="N", help="sequences (default 2)")
    add("--seq", type=_size, default=16, metavar="N", help="tokens of a sequence (default 16)")
    add("--vocab", type=_size, default=None, metavar="N",
        help="vocabulary, or columns of a product (default 1000, or that of the model)")  # fmt: skip
    add("--hidden", "--normalized-dim", type=_size, default=None, metavar="N",
        help="hidden size, or depth of a product (default 256, or that of the model)")  # fmt: skip
    add("--check-grad", action="store_true", help="judge gradients too")
    add("--profile", default="derived", metavar="NAME",
        help="of the tolerances: derived (default), field or torch")  # fmt: skip
    add("--tolerances", type=Path, default=PACKAGED, metavar="FILE",
        help="another file of the schema of docs/tolerance.md")  # fmt: skip


def _size(text: str) -> int:
    size = int(text)
    if not 1 <= size < 2**31:
        raise argparse.ArgumentTypeError(f"is {text}; may be 1 to 2^31 - 1")
    return size


def run(options: argparse.Namespace, stages) -> dict:
    """The judgments of every operator and dtype that was asked for."""
    try:
        contract = load(options.tolerances)
        profile = contract.profile(options.profile)
    except ContractError as error:
        raise CheckError(str(error)) from None
    except OSError as error:
        raise CheckError(f"--tolerances {options.tolerances}: cannot be read: {error.strerror}") from None
    if options.list:
        return _list(profile, list(contract.profiles))
    operators = list(OPERATORS.values()) if options.op == ALL else [OPERATORS[options.op]]
    if ":" in options.candidate and len(operators) > 1:
        raise CheckError(f"--candidate {options.candidate}: needs --op, to say what it computes")
    results, skipped = [], []
    with torch_threads(len(os.sched_getaffinity(0))):
        for operator in operators:
            if len(operators) > 1 and operator.model and options.device.startswith("cpu"):
                reason = "minutes on a CPU at the size of the model; runs where --op names it"
                skipped.append({"op": operator.name, "reason": reason})
                continue
            for dtype in _dtypes(operator, options.dtype, len(operators) > 1):
                results.append(_check(operator, dtype, profile, options, stages))
    if not results:
        raise CheckError(f"--dtype {options.dtype}: no operator that was asked for takes it")
    return {
        "profile": profile.name,
        "candidate": options.candidate,
        "check_grad": options.check_grad,
        "passed": all(line["passed"] for result in results for line in result["lines"]),
        "results": results,
        "skipped": skipped,
    }


def _dtypes(operator: Operator, asked: str, several: bool) -> tuple[str, ...]:
    if asked == ALL:
        return operator.dtypes
    if asked in operator.dtypes or several:
        return (asked,) if asked in operator.dtypes else ()
    raise CheckError(f"--dtype {asked}: {operator.name} takes {', '.join(operator.dtypes)}")


def _check(operator: Operator, dtype: str, profile: Profile, options, stages) -> dict:
    shape = _shape(operator, options)
    try:
        return _judged(operator, dtype, shape, profile, options, stages)
    except (RuntimeError, MemoryError) as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        if not isinstance(error, (MemoryError, torch.OutOfMemoryError)) and not any(
            words in text for words in _NO_MEMORY
        ):
            raise
        sizes = " ".join(f"--{name} {size}" for name, size in shape._asdict().items())
        raise CheckError(
            f"{sizes}: {operator.name} {dtype} finds no memory on {options.device} ({text})"
        ) from None


# What torch and samebits say of a tensor that no memory holds, or whose size is beyond 64 bits.
_NO_MEMORY = ("allocate", "overflow")


def _judged(operator: Operator, dtype: str, shape: Shape, profile: Profile, options, stages) -> dict:
    with stages.stage(f"{operator.name} {dtype}", steps(operator, options.check_grad)) as tick:
        inputs = operator.make(shape, DTYPES[dtype], options.device, options.seed)
        candidate = find(operator, options.candidate, inputs.operands, options.contract)
        case = Case(operator, candidate, dtype, shape, inputs, options.device, options.seed, profile)
        lines = judgments(case, options.check_grad, tick)
    return {"op": operator.name, "dtype": dtype, "shape": shape._asdict(), "runs": candidate.runs,
            "passed": all(line["passed"] for line in lines), "lines": lines}  # fmt: skip


def _shape(operator: Operator, options) -> Shape:
    asked = Shape(options.batch, options.seq, options.vocab or 1000, options.hidden or 256)
    fixed = operator.shape(asked)
    for name in ("vocab", "hidden"):
        given = getattr(options, name)
        if options.op != ALL and given is not None and given != getattr(fixed, name):
            raise CheckError(f"--{name} {given}: must be {getattr(fixed, name)} for {operator.name}")
    return fixed


def _list(profile: Profile, profiles: list[str]) -> dict:
    operators = [
        {"op": o.name, "call": o.call, "dtypes": o.dtypes, "outputs": list(o.outputs),
         "gradients": list(o.gradients), "candidates": [*names(o), "module:function"]}
        for o in OPERATORS.values()
    ]  # fmt: skip
    cells = [
        {"judgment": judgment, "class": kind, "output": output, "dtype": dtype, **cell.data()}
        for (judgment, kind, output, dtype), cell in profile.cells.items()
    ]
    backends = [{"name": b.name, "available": b.available, "reason": b.reason} for b in samebits.backends()]
    return {"passed": True, "profile": profile.name, "about": profile.about, "profiles": profiles,
            "operators": operators, "backends": backends, "cells": cells}  # fmt: skip
