"""Finds torch and the native library, and refuses a pair that does not belong together."""

from pathlib import Path

REQUIRED_TORCH = (2, 10)
_here = Path(__file__).absolute().parent  # not resolve(): a build tree holds links to the sources


def _import_torch():
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"samebits needs torch >= 2.10, and torch cannot be imported here ({error}); "
            "install it with: pip install 'torch>=2.10'"
        ) from None
    return torch


def _package_version() -> tuple[str, str]:
    try:
        from . import _version
    except ImportError:
        raise ImportError(
            f"samebits: {_here} is a source folder that has not been built; run `pip install "
            "--no-build-isolation .` in the repository, or put <build>/python on PYTHONPATH"
        ) from None
    return _version.__version__, _version.built_with_torch


def _check_torch(torch_version: str, package: str, built_with: str) -> None:
    release = tuple(int(part) for part in torch_version.split("+")[0].split(".")[:2])
    if release < REQUIRED_TORCH:
        raise ImportError(
            f"samebits {package} was built against torch {built_with} and needs torch >= 2.10, but this is "
            f"torch {torch_version}; install a newer one with: pip install 'torch>=2.10'"
        )


def _load_library(torch, package: str, built_with: str) -> None:
    path = _here / "libsamebits_torch.so"
    if not path.exists():
        raise ImportError(
            f"samebits {package}: the native library {path.name} is missing from {_here}; "
            "reinstall with: pip install --no-build-isolation ."
        )
    try:
        torch.ops.load_library(str(path))
    except (OSError, RuntimeError) as error:
        raise ImportError(
            f"samebits {package} was built against torch {built_with}, and its native library does not load "
            f"into torch {torch.__version__}; reinstall with: pip install --no-build-isolation . ({error})"
        ) from None
    library = torch.ops.samebits.version.default()
    if library != package:
        raise ImportError(
            f"samebits: the Python package is version {package} but its native library {path} is version "
            f"{library}; reinstall samebits so that both come from one build"
        )


def load() -> str:
    """Load the native library and return the version; ImportError says in one line what is wrong."""
    torch = _import_torch()
    package, built_with = _package_version()
    _check_torch(torch.__version__, package, built_with)
    _load_library(torch, package, built_with)
    return package


version = load()
