"""Shared set-up: deterministic hypothesis, and torch's thread count and modes as they were."""

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "samebits",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("samebits")


@pytest.fixture(autouse=True)
def torch_as_it_was():
    """Every test starts from one seed and gives torch's thread count back."""
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)
