"""What the build refuses, and that it says why."""

import os
import subprocess
import sys

import pytest

from conftest import ROOT


def configure(folder, *defines, env=None):
    """(exit status, output with line breaks folded) of a configure run."""
    command = ["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", "-DSAMEBITS_BUILD_TESTS=OFF", *defines]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("flag", ["-ffast-math", "-Ofast", "-march=native", "-ffp-contract=fast"])
def test_refuses_flags_that_change_bits(tmp_path, flag):
    status, output = configure(
        tmp_path, f"-DCMAKE_CXX_FLAGS={flag}", "-DSAMEBITS_TORCH=OFF", "-DSAMEBITS_CUDA=OFF"
    )
    assert status != 0 and f"CMAKE_CXX_FLAGS contains {flag}" in output


def test_refuses_an_option_value_it_does_not_know(tmp_path):
    status, output = configure(tmp_path, "-DSAMEBITS_TORCH=YES")
    assert status != 0 and 'SAMEBITS_TORCH is "YES"; it may be AUTO, ON or OFF' in output


@pytest.fixture
def python_without_torch(tmp_path):
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    script.chmod(0o755)
    return script


def test_torch_on_without_torch_fails_and_auto_reports(tmp_path, python_without_torch):
    asked = [f"-DSAMEBITS_PYTHON={python_without_torch}", "-DSAMEBITS_CUDA=OFF"]
    status, output = configure(tmp_path / "on", "-DSAMEBITS_TORCH=ON", *asked)
    assert status != 0 and "SAMEBITS_TORCH is ON but" in output and "No module named 'torch'" in output
    status, output = configure(tmp_path / "auto", "-DSAMEBITS_TORCH=AUTO", *asked)
    assert status == 0 and "torch: not built:" in output


def test_cuda_on_without_a_compiler_fails_and_auto_reports(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ["c++", "g++", "cmake", "ninja", "ar", "ranlib", "ld", "as", "sh"]:
        found = subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
        if found:
            (tools / name).symlink_to(found)
    env = {k: v for k, v in os.environ.items() if not k.startswith("CUDA")} | {"PATH": str(tools)}
    hidden = [f"-DSAMEBITS_PYTHON={sys.executable}", "-DCMAKE_CUDA_COMPILER=NOTFOUND"]
    status, output = configure(tmp_path / "on", "-DSAMEBITS_CUDA=ON", *hidden, env=env)
    assert status != 0 and "SAMEBITS_CUDA is ON but no CUDA compiler was found" in output
    for torch in ("ON", "AUTO"):
        asked = (f"-DSAMEBITS_TORCH={torch}", "-DSAMEBITS_CUDA=AUTO")
        status, output = configure(tmp_path / torch, *asked, *hidden, env=env)
        assert status == 0 and "CUDA: not built: no CUDA compiler was found" in output
        assert "torch: built against torch" in output


def architectures(tmp_path, asked, native):
    """(exit status, output) of cmake/CudaArchs.cmake where the compiler found GPUs of `native`."""
    script = tmp_path / "archs.cmake"
    script.write_text(
        f'include("{ROOT}/cmake/CudaArchs.cmake")\n'
        f'set(CMAKE_CUDA_ARCHITECTURES_NATIVE "{native}")\n'
        f'samebits_cuda_archs(archs "{asked}")\n'
        'samebits_cuda_has_sm90(has_sm90 "${archs}")\n'
        'message("${archs} ${has_sm90}")\n'
    )
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("asked", "native", "found"),
    [
        ("80-real;90-real;80-virtual", "", "80-real;90-real;80-virtual ON"),
        ("90a-real", "", "90a-real ON"),
        ("90", "", "90 ON"),
        ("100-real;80-virtual", "90-real", "100-real;80-virtual OFF"),
        ("190-real", "", "190-real OFF"),
        ("native", "90-real", "90-real ON"),
        ("native", "90-real;120-real", "90-real;120-real ON"),
        ("native", "100-real", "100-real OFF"),
    ],
)  # fmt: skip
def test_hopper_kernels_are_built_where_a_list_or_a_gpu_has_a_90(tmp_path, asked, native, found):
    assert architectures(tmp_path, asked, native) == (0, found)


@pytest.mark.parametrize("native", ["", "No CUDA devices found.-real"])
def test_native_without_a_gpu_fails_and_says_what_to_name(tmp_path, native):
    status, output = architectures(tmp_path, "native", native)
    assert status != 0 and "SAMEBITS_CUDA_ARCHS is native, but no GPU was found here" in output


def test_a_missing_library_is_named_with_its_debian_package(tmp_path):
    status, output = configure(tmp_path, "-DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON", "-DSAMEBITS_TORCH=OFF")
    assert status != 0 and "samebits needs hwy" in output and "apt-get install libhwy-dev" in output
