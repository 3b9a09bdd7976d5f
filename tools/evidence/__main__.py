"""python -m evidence: takes evidence on the GPU of this machine."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from samebits import _native

from . import (
    arithmetic,
    audit,
    bits,
    embedding,
    head_cases,
    head_records,
    head_repeats,
    head_timings,
    heads,
    kernels,
    machine,
    products,
    profiles,
    timings,
)
from .cases import cases
from .records import TornRecord, kept

PARTS = (
    "bits", "kernels", "products", "heads", "embedding", "arithmetic", "audit", "timings", "head_timings",
    "profiles",
)  # fmt: skip


def bench_lines(program: Path) -> list[dict]:
    """What the C++ benchmark measured."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.json"
        subprocess.run([program, file], check=True)
        return json.loads(file.read_text())


def main() -> int:
    """Exit status 0: recorded, no bit differs, every plan was kept. 1: recorded, with problems. 2: no GPU, or
    a torn file of timings, to which no line can be added."""
    parser = argparse.ArgumentParser(prog="evidence", description=__doc__)
    parser.add_argument("--out", type=Path, default=machine.ROOT / "evidence", help="folder to write into")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, help="parts to take (default: all)"
    )
    parser.add_argument("--groups", nargs="+", choices=head_timings.GROUPS,
                        default=tuple(head_timings.GROUPS),
                        help="of head_timings (default: all); the others of the same device, versions and "
                        "sources stay in its file")  # fmt: skip
    parser.add_argument("--rows", nargs="+", type=int,
                        help="of those groups, shapes of so many rows alone (default: all); the other "
                        "lines stay likewise")  # fmt: skip
    parser.add_argument("--without", nargs="+", choices=head_timings.OTHERS, default=(),
                        help="packages to leave out of head_timings")  # fmt: skip
    parser.add_argument("--first-call-limit", type=float, metavar="SECONDS",
                        help="leaves out who takes longer to start in head_timings")  # fmt: skip
    parser.add_argument("--bench", type=Path, help="the C++ benchmark, whose table is kept as bench.json")
    parser.add_argument("--quick", action="store_true", help="small cases, to see that it works")
    options = parser.parse_args()
    if _native.cuda_problem or not torch.cuda.is_available():
        print(f"no evidence can be taken here: {_native.cuda_problem or 'torch finds no CUDA device'}")
        return 2
    folder = options.out / machine.slug(options.device)
    folder.mkdir(parents=True, exist_ok=True)
    run = machine.describe(options.device)
    problems = []
    try:  # ahead of what takes hours
        goes_on = "head_timings" in options.only and not options.quick
        tables = kept(folder / "head_timings.json", run) if goes_on else {}
    except TornRecord as error:
        print(error)
        return 2

    def write_text(name: str, text: str) -> None:
        part = folder / f"{name}.part"  # whole or not at all: a run may be ended at any time
        part.write_text(text)
        os.replace(part, folder / name)

    def write(name: str, content: dict) -> None:
        write_text(f"{name}.json", json.dumps({"run": run, **content}, indent=1) + "\n")

    if "kernels" in options.only:
        recorded = kernels.record(options.device)
        problems += recorded["problems"]
        write("kernels", recorded)
    if "bits" in options.only:
        records = []
        for case in cases(options.quick):
            begin = time.monotonic()
            records.append(bits.record(case, options.device))
            differing = records[-1]["rows_that_differ_from_the_cpu"]
            print(
                f"{case.name}: {sum(differing.values())} rows differ ({time.monotonic() - begin:.1f} s)",
                flush=True,
            )
            problems += [
                f"{case.name}: {count} rows of {name} differ" for name, count in differing.items() if count
            ]
        write("bits", {"cases": records})
    if "products" in options.only:
        records = [products.record(case, options.device) for case in products.cases(options.quick)]
        problems += [problem for record in records for problem in products.problems(record)]
        write("products", {"cases": records})
    if "heads" in options.only:
        records = [heads.record(case, options.device) for case in head_cases.cases(options.quick)]
        problems += [problem for record in records for problem in head_records.problems(record)]
        repeated = [head_repeats.record(some, options.device) for some in head_repeats.repeats(options.quick)]
        problems += [problem for record in repeated for problem in head_repeats.problems(record)]
        write("heads", {"cases": records, "repeats": repeated, **heads.kernel_record(options.device)})
    if "embedding" in options.only:
        recorded = embedding.record(options.device, options.quick)
        problems += recorded["problems"]
        write("embedding", recorded)
    if "arithmetic" in options.only:
        recorded = arithmetic.record(options.device, options.quick)
        problems += recorded["problems"]
        write("arithmetic", recorded)
    if "audit" in options.only:
        audit.record(folder, options.device)
    if "timings" in options.only:
        write("timings", timings.record(options.device, options.quick))
    if "profiles" in options.only:
        try:
            write_text("profiles.txt", profiles.record(run, options.quick))
        except RuntimeError as error:  # counters need permission, which many machines do not give
            print(f"no profiles: {error}")
    if "head_timings" in options.only:
        recorded = head_timings.record(
            options.device, options.quick, options.groups, options.without, options.first_call_limit,
            lambda tables: write("head_timings", tables), tables, options.rows,
        )  # fmt: skip
        problems += head_timings.problems(recorded)
    if options.bench:
        write("bench", {"lines": bench_lines(options.bench)})
    print(f"written to {folder}")
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
