"""What a report is about: the sources, the libraries, the machine."""

import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import torch

import samebits
from samebits.report import folder

_PACKAGE = Path(samebits.__file__).absolute().parent
# What libraries are compiled from; the digest is the one that evidence of the repository carries.
_COMPILED = ("src", "include", "bindings")


def checkout() -> Path | None:
    """The repository this package was built in, or the one the command was started in; None elsewhere."""
    for root in (Path(__file__).resolve().parents[3], Path.cwd()):
        if (root / "tests" / "golden").is_dir() and (root / "src" / "order").is_dir():
            return root
    return None


def tree_digest(root: Path, folders: tuple[str, ...], suffixes: tuple[str, ...] = ()) -> str:
    """SHA-256 over names and contents of the files below the folders."""
    total = hashlib.sha256()
    for name in folders:
        for path in sorted((root / name).rglob("*")):
            if path.is_file() and (not suffixes or path.suffix in suffixes):
                total.update(path.relative_to(root).as_posix().encode() + b"\0")
                total.update(bytes.fromhex(folder.digest(path)))
    return total.hexdigest()


def digests() -> dict[str, Any]:
    """Of the Python package, of the native libraries, and of the sources where there is a checkout."""
    root = checkout()
    return {
        "package_sha256": tree_digest(_PACKAGE.parent, (_PACKAGE.name,), (".py", ".json")),
        "libraries_sha256": {path.name: folder.digest(path) for path in sorted(_PACKAGE.glob("*.so"))},
        "source_sha256": tree_digest(root, _COMPILED) if root else None,
    }


def machine(device: str) -> dict[str, Any]:
    """Where it runs; no names of hosts or folders."""
    found = {
        "samebits": samebits.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "backend": samebits.plan("logp", device=device).backend,
        "device": device,
    }
    if torch.device(device).type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found["device_name"] = properties.name
        found["compute_capability"] = f"{properties.major}.{properties.minor}"
        found["cuda_of_torch"] = torch.version.cuda
    return found


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
