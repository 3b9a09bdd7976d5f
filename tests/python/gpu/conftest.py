"""GPU tests: collected where torch finds a device (see ../conftest.py) and then never skipped."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))  # evidence.inputs
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # support

DEVICE = "cuda:0"


@pytest.fixture(autouse=True)
def no_error_is_left_behind():
    """A failed launch shows up at the next synchronisation at the latest."""
    yield
    torch.cuda.synchronize()


@pytest.fixture
def call():
    """(logits, targets) on the GPU, from a CPU generator."""
    return torch.randn(5, 3000).to(DEVICE), torch.tensor([0, 77, 2999, 5, -100], device=DEVICE)


collect_ignore = [] if torch.cuda.device_count() > 1 else ["test_gpu_two_devices.py"]


def pytest_terminal_summary(terminalreporter) -> None:
    """Says what was left out, and why."""
    for name in collect_ignore:
        found = torch.cuda.device_count()
        terminalreporter.write_line(f"{name} was not collected: it needs two GPUs, and here is {found}")
