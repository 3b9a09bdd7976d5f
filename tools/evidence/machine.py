"""Where and from what the evidence comes."""

import hashlib
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

import samebits as sb

ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("src", "include", "bindings")


def source_digest(root: Path = ROOT) -> str:
    """SHA-256 over names and contents of everything the libraries are compiled from."""
    digest = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file():
                digest.update(path.relative_to(root).as_posix().encode() + b"\0")
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return (
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
        )
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def describe(device: str) -> dict[str, Any]:
    """Device, driver, versions and the digest of the sources."""
    properties = torch.cuda.get_device_properties(device)
    return {
        "device": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "driver": _driver(),
        "cuda_runtime_of_torch": torch.version.cuda,
        "torch": torch.__version__,
        "samebits": sb.__version__,
        "python": platform.python_version(),
        "cpu_backend": sb.plan("logp").backend,
        "source_sha256": source_digest(),
    }


def slug(device: str) -> str:
    """The folder's name: "nvidia-h200"."""
    return "-".join(torch.cuda.get_device_properties(device).name.lower().split())
