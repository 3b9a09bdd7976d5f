"""What a result was measured on."""

import os
import platform
from pathlib import Path
from typing import Any

import torch

import samebits


def describe(device: torch.device) -> dict[str, Any]:
    """Chip, versions, and the build; `gpu` is None for the CPU."""
    gpu = torch.cuda.get_device_properties(device).name if device.type == "cuda" else None
    return {
        "gpu": gpu,
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "cpu_backend": samebits.plan("logp").backend,
        "samebits": samebits.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda if gpu else None,
        "python": platform.python_version(),
    }


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    for line in path.read_text().splitlines() if path.exists() else []:
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
