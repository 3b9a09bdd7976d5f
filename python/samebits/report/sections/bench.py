"""Speed beside whatever else is installed, in turns on the same tensors."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import torch

from samebits.bench import cli, machine, peers
from samebits.bench import measure as bench
from samebits.bench.errors import BenchError
from samebits.report.case import PASSED, Case
from samebits.report.context import Context, judged, skipped

TITLE = "Benchmark"
BUDGET = 150.0  # seconds; a case that has not begun by then is skipped
PATIENCE = 30.0  # seconds of another package's first call: some tune their kernels for minutes
ABOUT = (
    "Median milliseconds of every contestant that is installed, called in turns with samebits on the same "
    "tensors, whose results agree with it. These cases say that it was measured, not that it was fast; who "
    f"could not take part, or took longer than {PATIENCE:.0f} s to compile and tune, is skipped with the "
    f"reason, as is what has not begun after {BUDGET:.0f} s. data/bench.json can be shown with "
    "samebits.bench --show."
)
PLAN = (  # operators, passes
    (("logp", "linear_logp"), ("fwd", "fwdbwd", "decode")),
    (("linear", "embedding", "masked_mean"), ("fwd", "fwdbwd")),
)


def cases(context: Context) -> Iterator[Case]:
    """One case for each operator, pass and contestant."""
    plan = planned(context)
    effort = bench.Effort(0.2 if context.quick else 1.0, 0.5 if context.on_cuda else 0.0, patience=PATIENCE)
    entries, begun = [], time.monotonic()
    placed = torch.cuda.device(context.device) if context.on_cuda else nullcontext()
    with placed, context.stage("benchmark", len(plan)) as tick:
        for case in plan:
            tick(note=case.title)
            labels = {"case": f"{case.mode}, {shape(case)}", "operator": case.op, "dtype": case.dtype}
            if time.monotonic() - begun > BUDGET:
                yield skipped(f"the {BUDGET:.0f} s of this section were over", **labels)
                continue
            try:
                entry = bench.measure(case, effort)
            except BenchError as error:
                yield judged(False, str(error), **labels)
                continue
            entries.append(entry)
            yield from contestants(entry, labels)
    context.attach("bench", {
        "schema": cli.SCHEMA,
        "machine": machine.describe(torch.device(context.device)),
        "seed": context.seed,
        "packages": {name: peers.version(name) for name in peers.DISTRIBUTIONS},
        "cases": entries,
    })  # fmt: skip


def planned(context: Context) -> list:
    """The cases of samebits.bench, as its command would plan them."""
    plan = []
    for operators, modes in PLAN:
        arguments = ["--op", *operators, "--mode", *modes, "--dtype", "bf16", "--device", context.device]
        context.commands.append(" ".join(["python -m samebits.bench", *arguments]))
        plan += cli.cases(cli.parser().parse_args([*arguments, "--seed", str(context.seed % 2**32)]))
    # Of decode the fewest tokens alone: what a rollout does most.
    fewest = [case for case in plan if case.mode != "decode" or case.tokens == min(cli.DECODE_TOKENS)]
    if context.quick:
        fewest = [
            replace(case, tokens=min(case.tokens, 16), vocab=4096, hidden=min(case.hidden, 256))
            for case in fewest
        ]
    return fewest


def shape(case) -> str:
    """Of the operands."""
    return " x ".join(str(size) for size in (case.tokens, case.vocab, case.hidden) if size)


def contestants(entry: dict, labels: dict[str, str]) -> Iterator[Case]:
    """Who took part, and who did not."""
    for one in entry["contestants"]:
        yield Case(
            status=PASSED, method=one["name"], value=1e3 * one["seconds"]["median"], unit="ms", **labels
        )
    for one in entry["not_run"]:
        yield skipped(one["reason"], method=one["name"], **labels)
