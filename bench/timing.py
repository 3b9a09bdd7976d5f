"""Interleaved timing: contestants take turns on the same tensors, and medians and quartiles are compared."""

import json
import os
import platform
import statistics
import time
from pathlib import Path

import torch


def interleaved(contestants: dict, rounds: int, calls: int = 1) -> dict[str, dict[str, float]]:
    """Seconds per call of each function, from `rounds` turns of `calls` calls; who goes first rotates."""
    names = list(contestants)
    taken = {name: [] for name in names}
    for name in names:
        contestants[name]()  # warm up
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            function = contestants[name]
            start = time.perf_counter()
            for _ in range(calls):
                function()
            taken[name].append((time.perf_counter() - start) / calls)
    return {
        name: {
            "median": statistics.median(values),
            "best": min(values),
            "worst": max(values),
        }
        for name, values in taken.items()
    }


def machine() -> dict:
    """What was measured on."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def save(path: Path, result: dict) -> None:
    """Write JSON, making the folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written: {path}")
