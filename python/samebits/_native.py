"""Finds torch and the native libraries, and refuses what does not belong together.

Without the first library nothing works, so import fails. Without the second, the CUDA one, everything works
on the CPU: `cuda_problem` says why it is not there, and a call on CUDA tensors says it again.
"""

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


def _load_cuda_library(torch, package: str) -> str:
    """Load the CUDA library into a torch that has CUDA; what stands against it, or nothing."""
    path = _here / "libsamebits_torch_cuda.so"
    if not getattr(getattr(torch, "version", None), "cuda", None):
        return f"this torch ({torch.__version__}) has no CUDA"
    if not path.exists():
        return "this build of samebits has no CUDA library (it is built where nvcc of CUDA 13 is found)"
    try:
        torch.ops.load_library(str(path))
        library = torch.ops.samebits.cuda_version.default()
    except (OSError, RuntimeError) as error:
        return f"the CUDA library of samebits does not load into torch {torch.__version__} ({error})"
    if library != package:
        return f"the CUDA library of samebits is version {library} and the package is version {package}"
    return ""


def load() -> tuple[str, str]:
    """Load the native libraries; the version, and why CUDA tensors cannot be computed on ("" when they can).

    ImportError says in one line what is wrong.
    """
    torch = _import_torch()
    package, built_with = _package_version()
    _check_torch(torch.__version__, package, built_with)
    _load_library(torch, package, built_with)
    return package, _load_cuda_library(torch, package)


version, cuda_problem = load()
