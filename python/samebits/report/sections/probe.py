"""What really ran on each path of an operator, against what its plan promised."""

import argparse
from collections.abc import Iterator

from samebits.check import probe
from samebits.check.errors import CheckError
from samebits.report.case import Case
from samebits.report.context import Context, judged

TITLE = "Autograd probe"
ABOUT = (
    "Every path of every operator under torch's profiler: fused first order, composed higher orders, each "
    "transform, torch.compile. A path fails when something ran that the plan does not name, or did not run "
    "that it names. data/probe-DTYPE.json has what was seen."
)
DTYPES = ("bf16", "fp32")


def cases(context: Context) -> Iterator[Case]:
    """One case for each operator, dtype and path."""
    for dtype in DTYPES[:1] if context.quick else DTYPES:
        options = ["--dtype", dtype]
        parser = argparse.ArgumentParser()
        probe.add_arguments(parser)
        place = ["--device", context.device, "--seed", str(context.seed)]
        context.commands.append(" ".join(["python -m samebits.check probe", *options, *place, "--json"]))
        try:
            found = probe.run(
                parser.parse_args(options, argparse.Namespace(device=context.device, seed=context.seed)),
                context,
            )
        except CheckError as error:
            yield judged(False, str(error), case="all", dtype=dtype)
            continue
        context.attach(f"probe-{dtype}", found)
        for path in found["paths"]:
            yield judged(
                not path["problems"], "; ".join(path["problems"]), case=path["kind"], operator=path["op"],
                dtype=dtype, method=path["path"], value=len(path["problems"]), tolerance=0,
                unit="broken promises",
            )  # fmt: skip
