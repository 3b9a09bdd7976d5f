"""`python -m samebits.check invariance`: does a row have the same bits in every batch?"""

import argparse

import torch

from samebits.check.errors import CheckError
from samebits.check.invariance.audit import Request, audit
from samebits.check.invariance.report import print_report
from samebits.check.invariance.targets import KINDS, NAMED, find

__all__ = ["EXAMPLE", "SUMMARY", "add_arguments", "print_report", "run"]

SUMMARY = "whether the bits of a row depend on its batch, of any function of rows"
EXAMPLE = "python -m samebits.check invariance --target torch.mm --dtype float32 --hidden 2688"
_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
           "float64": torch.float64}  # fmt: skip
_SHORT = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "fp64": "float64"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What only this check has."""
    add = parser.add_argument
    add("--target", required=True, metavar="NAME",
        help=f"what to audit: {', '.join(NAMED)}, or module:function")  # fmt: skip
    add("--kind", choices=KINDS,
        help="what module:function takes: logp (logits, targets) -> [T], head (hidden, weight, targets) -> "
        "[T], product (a, b) -> [M, N] (default logp)")  # fmt: skip
    add("--dtype", nargs="+", default=["float32", "bfloat16"], choices=[*_DTYPES, *_SHORT],
        metavar="DTYPE",
        help=f"of the floating operands: {', '.join(_DTYPES)} (default float32 bfloat16)")  # fmt: skip
    add("--rows", type=int, default=257, metavar="T", help="rows of the whole batch, T or M (default 257)")
    add("--vocab", type=int, default=1000, metavar="V", help="columns, V or N (default 1000)")
    add("--hidden", type=int, default=512, metavar="H", help="hidden size, H or K (default 512)")
    add("--check-grad", action="store_true", help="gradients too")
    add("--repeats", type=int, default=3, metavar="N", help="repeats of the whole batch (default 3)")
    add("--threads", type=int, nargs="+", default=[1, 2, 3, 7], metavar="N",
        help="thread counts of torch; the first is that of every other trial (default 1 2 3 7)")  # fmt: skip
    add("--padding-id", type=int, metavar="ID",
        help="target of rows of padding of module:function (default 0); a negative one says that it leaves "
        "such rows out")  # fmt: skip


def run(options: argparse.Namespace, stages) -> dict:
    """Differing bits along every axis, and the smallest failing case."""
    for name in ("rows", "vocab", "hidden", "repeats"):
        if getattr(options, name) < 1:
            raise CheckError(f"--{name} {getattr(options, name)}: must be 1 or more")
    for count in options.threads:
        if not 1 <= count <= 1024:
            raise CheckError(f"--threads {count}: may be 1 to 1024")
    target = find(options.target, options.kind, options.padding_id, options.device)
    request = Request(target, (options.rows, options.vocab, options.hidden), options.device, options.seed,
                      options.check_grad, options.threads, options.repeats)  # fmt: skip
    names = dict.fromkeys(_SHORT.get(name, name) for name in options.dtype)
    found = {name: audit(request, _DTYPES[name], stages) for name in names}
    lines = [line for part in found.values() for line in part["lines"]]
    smallest = [part["smallest"] for part in found.values() if part["smallest"]]
    return {
        "target": target.name,
        "kind": target.kind,
        "rows": options.rows,
        "vocab": options.vocab,
        "hidden": None if target.kind == "logp" else options.hidden,
        "threads": options.threads,
        "passed": not any(line["differing"] for line in lines),
        "smallest": smallest,
        "lines": lines,
        "refusals": [refusal for part in found.values() for refusal in part["refusals"]],
        "provenance": {name: part["provenance"] for name, part in found.items() if part["provenance"]},
    }
