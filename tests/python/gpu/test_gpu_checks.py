"""The checks that anyone can run, on a GPU: nothing depends on the batch, and every plan was kept."""

from contextlib import contextmanager

import pytest
import torch

from samebits.check.cli import CHECKS, parse


class Quiet:
    """Stages without a bar."""

    @contextmanager
    def stage(self, name, total):
        """As samebits.demo.progress has it."""
        yield lambda steps=1, note=None: None


def run(*arguments: str) -> dict:
    options = parse([*arguments, "--device", "cuda"])
    return CHECKS[options.check].run(options, Quiet())


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_every_path_runs_the_kernels_that_the_plan_promised(dtype):
    torch._dynamo.reset()
    found = run("probe", "--dtype", dtype)
    assert found["problems"] == []
    assert all(path["samebits_kernels"] for path in found["paths"] if path["path"] != "backend=cublaslt")


@pytest.mark.parametrize("target", ["logp", "linear_logp", "matmul"])
def test_no_bit_depends_on_the_batch(target):
    found = run(
        "invariance", "--target", target, "--check-grad", "--dtype", "bf16", "fp32", "--hidden", "320"
    )
    assert found["passed"] and found["smallest"] == []


def test_the_batch_dependence_of_torch_mm_is_found():
    found = run(
        "invariance", "--target", "torch.mm", "--dtype", "bf16", "--hidden", "2688", "--vocab", "4096"
    )
    assert not found["passed"] and found["smallest"]
