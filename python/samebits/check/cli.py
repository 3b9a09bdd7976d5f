"""`python -m samebits.check`: one subcommand for each check.

A check is a module with `SUMMARY`, `EXAMPLE`, `add_arguments(parser)`, `run(options, stages)`, which returns
plain data with "passed" in it, and `print_report(console, data)`.
"""

import argparse
import json
import os
import sys
import time

import torch

import samebits
from samebits.check import autodiff, invariance, op, probe
from samebits.check.errors import CheckError
from samebits.demo.errors import DemoError, need

CHECKS = {"autodiff": autodiff, "invariance": invariance, "op": op, "probe": probe}


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; argparse exits with status 2 on bad ones."""
    parser = argparse.ArgumentParser(
        prog="python -m samebits.check",
        description="Checks samebits on this machine. Exit status: 0 passed, 1 failed, 2 could not run.",
    )
    commands = parser.add_subparsers(dest="check", metavar="NAME", required=True)
    for name, check in CHECKS.items():
        command = commands.add_parser(
            name,
            help=check.SUMMARY,
            description=f"{check.SUMMARY}. Exit status: 0 passed, 1 failed, 2 could not run.",
            epilog=f"example: {check.EXAMPLE}",
        )
        check.add_arguments(command)
        command.add_argument(
            "--device", default="cpu", help="where to compute, as torch names it (default cpu)"
        )
        command.add_argument("--seed", type=_seed, default=0, help="of the inputs, below 2^63 (default 0)")
        command.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


def _seed(text: str) -> int:
    seed = int(text)
    if not 0 <= seed < 2**63:
        raise argparse.ArgumentTypeError(f"is {text}; may be 0 to 2^63 - 1")
    return seed


def main(arguments: list[str] | None = None) -> int:
    """Run one check; the exit status."""
    options = parse(arguments)
    try:
        need("rich", "rich", "the progress bar")
        status = run(options)
        sys.stdout.flush()
        return status
    except (CheckError, DemoError) as error:
        print(f"samebits.check: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # the report has nowhere to go: a full disk, a closed pipe
        print(f"samebits.check: the report could not be written: {error.strerror}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w")  # nothing is left to flush at exit
        return 2
    except KeyboardInterrupt:
        print("samebits.check: interrupted", file=sys.stderr)
        return 130


def run(options: argparse.Namespace) -> int:
    """The check that was asked for, with progress on the way and a report at the end."""
    from rich.console import Console

    from samebits.demo.progress import Stages
    from samebits.demo.threads import torch_threads

    check = CHECKS[options.check]
    require_device(options.device)
    started = time.monotonic()
    console = Console(stderr=options.json)
    # The tensors are small: several threads would mostly wait for each other.
    with torch_threads(1), Stages(console) as stages:
        found = check.run(options, stages)
    data = {
        "check": options.check,
        "samebits": samebits.__version__,
        "torch": torch.__version__,
        "device": options.device,
        "seed": options.seed,
        "seconds": round(time.monotonic() - started, 1),
        **found,
    }
    if options.json:
        print(json.dumps(data, indent=2, allow_nan=False))
    else:
        check.print_report(console, data)
    return 0 if data["passed"] else 1


def require_device(name: str) -> None:
    """Both torch and samebits can compute on `name`."""
    try:
        logits = torch.zeros(1, 2, device=name)
        samebits.logp(logits, torch.zeros(1, dtype=torch.int64, device=name)).cpu()
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        raise CheckError(f"--device {name}: {str(error).splitlines()[0]}") from None
