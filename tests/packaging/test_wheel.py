"""What a user gets from `pip install`: the native library is inside, or the build says why it cannot be."""

import json
import subprocess
import sys
import zipfile

from conftest import ROOT, run

LOGP = """
import samebits as sb, torch
x = torch.linspace(-3, 3, 300).reshape(3, 100)
print(sb.__file__, [v.hex() for v in sb.logp(x, torch.tensor([0, 50, 99])).tolist()])
"""


def test_one_wheel_serves_every_python(installed):
    assert installed.wheel.name.startswith("samebits-") and "-py3-none-linux_" in installed.wheel.name


def test_the_wheel_carries_the_native_module_and_the_cpp_package(installed):
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    for name in [
        "samebits/__init__.py",
        "samebits/py.typed",
        "samebits/contracts/tolerance.json",
        "samebits/libsamebits_torch.so",
        "samebits_native/bin/samebits",
        "samebits_native/lib/libsamebits.a",
        "samebits_native/lib/cmake/samebits/samebits-config.cmake",
        "samebits_native/include/samebits/samebits.h",
        "samebits_native/include/samebits/version.h",
    ]:
        assert name in names, name


def test_every_version_is_the_one_of_cmakelists(installed):
    text = (ROOT / "CMakeLists.txt").read_text()
    version = text.split("project(samebits VERSION ")[1].split()[0]
    assert installed.wheel.name.split("-")[1] == version
    assert (
        run(sys.executable, "-c", "import samebits; print(samebits.__version__)", env=installed.env).strip()
        == version
    )
    header = (installed.site / "samebits_native/include/samebits/version.h").read_text()
    assert f'"{version}"' in header


def test_a_fresh_process_computes_with_the_installed_module(installed):
    out = run(sys.executable, "-c", LOGP, env=installed.env, cwd=installed.site.parent)
    assert str(installed.site) in out


def test_the_check_of_operators_runs_from_the_wheel(installed, tmp_path):
    words = "-m samebits.check op --op linear_logp --dtype bf16 --vocab 300 --hidden 64 --check-grad --json"
    found = json.loads(run(sys.executable, *words.split(), env=installed.env, cwd=tmp_path))
    assert found["passed"] is True and len(found["results"][0]["lines"]) == 10


def test_import_needs_neither_cuda_nor_triton(installed):  # A32
    hidden = "import sys; sys.modules['triton'] = None\n" + LOGP
    env = installed.env | {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, "-c", hidden], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_module_holds_to_the_stable_abi(installed):  # A31
    run(sys.executable, ROOT / "tools/lint_stable_abi.py", installed.site / "samebits/libsamebits_torch.so")


def test_an_isolated_build_without_torch_fails_in_one_line():  # A30
    code = (
        "import sys; sys.modules['torch'] = None; sys.path.insert(0, 'tools'); import build_backend;"
        "build_backend.get_requires_for_build_wheel()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "pip install --no-build-isolation ." in done.stderr


def test_another_project_finds_the_cpp_package_in_the_wheel(installed, tmp_path):
    env = installed.env | {"CMAKE_PREFIX_PATH": str(installed.site / "samebits_native")}
    run("cmake", "-S", ROOT / "tests/consumer", "-B", tmp_path, "-G", "Ninja", env=env)
    run("cmake", "--build", tmp_path, env=env)
    assert "=" in run(tmp_path / "quickstart", env=env)
