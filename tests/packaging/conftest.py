"""A wheel, built from this tree as a user would, and unpacked away from the sources."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command, env=None, cwd=None):
    """Output of a command that must succeed."""
    done = subprocess.run([str(c) for c in command], env=env, cwd=cwd, text=True, capture_output=True)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """wheel: the file; site: where it is installed; env: an environment that imports it from there alone."""
    base = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    clean = {
        k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "SAMEBITS_TORCH", "SAMEBITS_CUDA"}
    }
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", base, ROOT, env=clean)
    (wheel,) = base.glob("*.whl")
    site = base / "site"
    run(*pip, "install", "--no-deps", "--target", site, wheel, env=clean)
    path = os.pathsep.join([str(site / "bin"), str(Path(sys.executable).parent), clean["PATH"]])
    return SimpleNamespace(wheel=wheel, site=site, env=clean | {"PYTHONPATH": str(site), "PATH": path})
