"""What a check ran on: device, driver, versions, and digests of the native libraries."""

import hashlib
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch

import samebits as sb


def describe(device: str) -> dict[str, Any]:
    """Plain data; of the machine itself only the device is named."""
    found: dict[str, Any] = {"device": "cpu"}
    if torch.device(device).type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found = {
            "device": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "driver": _driver(),
            "cuda_runtime_of_torch": torch.version.cuda,
        }
    return found | {
        "torch": torch.__version__,
        "samebits": sb.__version__,
        "python": platform.python_version(),
        "cpu_backend": sb.plan("logp").backend,
    }


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
        )
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


@cache
def libraries() -> dict[str, str]:
    """SHA-256 of each native library beside the package, by file name."""
    folder = Path(sb.__file__).parent
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("lib*.so"))
    }
