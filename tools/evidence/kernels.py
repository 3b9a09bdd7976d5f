"""Which operators and kernels ran, as torch's profiler saw them, against what the plans promised.

The paths and the judgement are those of `python -m samebits.check probe`.
"""

from typing import Any

import torch

from samebits.check.probe import observed_paths
from samebits.check.probe.operators import OPERATORS


def record(device: str) -> dict[str, Any]:
    """Every path of every operator; `problems` is empty when the plans told the truth."""
    paths, problems = {}, []
    for dtype in (torch.bfloat16, torch.float32):
        for make in OPERATORS.values():
            operator = make({"device": device, "dtype": dtype, "backend": None})
            paths_of = [p for p in operator.paths() if dtype == torch.bfloat16 or p.name != "torch.compile"]
            for found in observed_paths(operator, paths_of, lambda path: None):
                name = f"{found.pop('op')}, {str(dtype).removeprefix('torch.')}: {found.pop('path')}"
                paths[name] = found
                problems += [f"{name}: {problem}" for problem in found["problems"]]
    return {"paths": paths, "problems": problems}
