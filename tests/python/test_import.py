"""What import says when torch, the native library or a version does not fit: one line, with both versions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import samebits

PACKAGE = Path(samebits.__file__).parent
FAKE_TORCH = """
__version__ = "{version}"
class _Op:
    @staticmethod
    def default():
        return "{library}"
class _Samebits:
    version = _Op
class ops:
    samebits = _Samebits
    @staticmethod
    def load_library(path):
        {load}
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package that a test may tamper with, on its own import path."""
    copy = tmp_path / "samebits"
    copy.mkdir()
    for file in PACKAGE.iterdir():
        if file.suffix in (".py", ".so"):
            (copy / file.name).symlink_to(file.resolve())
    native = PACKAGE.parent / "samebits_native"  # holds what the library of a wheel is linked against
    if native.exists():
        (tmp_path / native.name).symlink_to(native)
    return copy


def replace(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text)


def fake_torch(package: Path, version="2.11.0", library=samebits.__version__, load="pass") -> None:
    replace(package.parent / "torch.py", FAKE_TORCH.format(version=version, library=library, load=load))


def error_of_import(package: Path, *flags: str) -> str:
    """The last line of `import samebits` in a fresh interpreter, which must fail with a one-line
    ImportError."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(package.parent)
    command = [sys.executable, *flags, "-c", "import samebits"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "During handling of the above" not in done.stderr and "direct cause" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_a30_without_torch_import_says_what_to_install(package):
    line = error_of_import(package, "-S")
    assert line.startswith("ImportError: samebits needs torch >= 2.10, and torch cannot be imported here")
    assert "pip install 'torch>=2.10'" in line


def test_a30_without_the_native_library_import_says_how_to_get_it(package):
    fake_torch(package)
    (package / "libsamebits_torch.so").unlink()
    line = error_of_import(package, "-S")
    assert "the native library libsamebits_torch.so is missing from" in line
    assert "pip install --no-build-isolation ." in line


def test_a30_a_source_folder_that_was_never_built_says_so(package):
    fake_torch(package)
    (package / "_version.py").unlink()
    line = error_of_import(package, "-S")
    assert "is a source folder that has not been built" in line and "pip install" in line


def test_a31_a_torch_that_is_too_old_is_refused_with_both_versions(package):
    fake_torch(package, version="2.9.1+cu128")
    line = error_of_import(package, "-S")
    built_with = samebits._version.built_with_torch
    assert f"built against torch {built_with} and needs torch >= 2.10, but this is torch 2.9.1+cu128" in line


def test_a31_a_library_that_does_not_load_is_refused_with_both_versions(package):
    fake_torch(package, version="2.15.0", load="raise OSError('undefined symbol: torch_something')")
    line = error_of_import(package, "-S")
    built_with = samebits._version.built_with_torch
    assert f"was built against torch {built_with}, and its native library does not load" in line
    assert "torch 2.15.0" in line and "undefined symbol: torch_something" in line


def test_a31_a_damaged_library_is_refused_by_the_real_torch(package):
    replace(package / "libsamebits_torch.so", "not a library")
    assert "does not load into torch" in error_of_import(package)


def test_a_library_and_a_package_of_different_versions_refuse_each_other(package):
    fake_torch(package, library="9.9.9")
    line = error_of_import(package, "-S")
    assert f"the Python package is version {samebits.__version__}" in line and "is version 9.9.9" in line


def test_a_tampered_version_is_refused_by_the_real_library(package):
    replace(package / "_version.py", '__version__ = "9.9.9"\nbuilt_with_torch = "2.11.0"\n')
    line = error_of_import(package)
    assert "the Python package is version 9.9.9" in line and f"is version {samebits.__version__}" in line


def answers(package: Path, code: str, **environment: str) -> list[str]:
    """What `code` prints in a fresh interpreter, which must print nothing else."""
    environment = os.environ | {"PYTHONPATH": str(package.parent)} | environment
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.splitlines()


CPU_AND_CUDA = """
import torch, samebits as sb
print(sb.logp(torch.zeros(1, 4), torch.tensor([2])).item())
plan = sb.plan("logp", device="cuda")
print(plan.can_run, *plan.refusals)
"""


def test_a32_import_without_a_gpu_prints_nothing_and_cuda_gives_one_clear_error():
    value, refusal = answers(PACKAGE, CPU_AND_CUDA, CUDA_VISIBLE_DEVICES="")
    assert float(value) == pytest.approx(-1.3862944, abs=1e-7)
    assert refusal.startswith("False device: is cuda, and ") and refusal.endswith("; may be cpu")


@pytest.mark.parametrize("library", ["is missing", "is damaged"])
def test_without_the_cuda_library_the_cpu_works_and_cuda_says_why_not(package, library):
    path = package / "libsamebits_torch_cuda.so"
    path.unlink(missing_ok=True)
    reason = "this build of samebits has no CUDA library"
    if library == "is damaged":
        path.write_text("not a library")
        reason = "the CUDA library of samebits does not load into torch"
    if not torch.version.cuda:
        reason = "has no CUDA"
    value, refusal = answers(package, CPU_AND_CUDA)
    assert float(value) == pytest.approx(-1.3862944, abs=1e-7)
    assert refusal.startswith("False device: is cuda, and ") and reason in refusal


def test_a30_every_call_runs_native_code_and_a_backend_that_is_missing_is_an_error():
    assert isinstance(torch.ops.samebits.logp.default, torch._ops.OpOverload)
    assert torch.ops.samebits.version.default() == samebits.__version__
    with pytest.raises(ValueError, match=r"^backend: is 'cuda'; may be"):
        samebits.logp(torch.zeros(1, 4), torch.tensor([2]), backend="cuda")


def test_neither_import_nor_eager_mode_loads_the_compiler():
    code = """
import sys
import torch
assert "torch._dynamo" not in sys.modules
import samebits
weight, ids = torch.ones(3, 2, requires_grad=True), torch.tensor([0])
samebits.embedding(ids, weight, grad_accumulator=torch.zeros(3, 2)).sum().backward()
samebits.logp(weight, torch.tensor([0, 1, 1]), out=torch.empty(3)).sum().backward()
assert "torch._dynamo" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
