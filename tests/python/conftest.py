"""Shared set-up: deterministic hypothesis, and torch's thread count and modes as they were."""

from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import samebits

settings.register_profile(
    "samebits",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("samebits")

# The GPU tests are for machines with a GPU and builds with its library; `make gpu-test` insists on both.
_library = Path(samebits.__file__).parent / "libsamebits_torch_cuda.so"
collect_ignore = [] if torch.cuda.is_available() and _library.exists() else ["gpu"]


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """Every test starts from one seed and gives torch's thread count back."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
