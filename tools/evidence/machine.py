"""Where and from what the evidence comes."""

import hashlib
from pathlib import Path
from typing import Any

import torch

from samebits.check import runtime

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


def describe(device: str) -> dict[str, Any]:
    """Device, driver, versions and the digest of the sources."""
    return {**runtime.describe(device), "source_sha256": source_digest()}


def slug(device: str) -> str:
    """The folder's name: "nvidia-h200"."""
    return "-".join(torch.cuda.get_device_properties(device).name.lower().split())
