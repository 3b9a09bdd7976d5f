"""Recording modes, autocast and transforms: the same bits, or a clear error; never a silent detach."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits


@pytest.fixture
def call():
    """(logits, targets)."""
    return torch.randn(3, 200), torch.tensor([0, 77, 199])


def test_every_output_has_a_gradient_function_when_the_logits_require_grad(call):
    logits, targets = call
    logits.requires_grad_()
    assert sb.logp(logits, targets).grad_fn is not None
    for value in sb.logp(logits, targets, return_lse=True, return_entropy=True):
        assert value.grad_fn is not None
    assert sb.logp(logits, targets, out=torch.empty(3)).grad_fn is not None
    for backend in sb.backends():
        if backend.available:
            assert sb.logp(logits, targets, backend=backend.name).grad_fn is not None
    with torch.no_grad():
        assert sb.logp(logits, targets).grad_fn is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_no_bits(call, dtype):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sb.logp(leaf, targets).sum(), leaf)
    with torch.autocast("cpu", dtype=dtype):
        values = sb.logp(leaf, targets)
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
        product = sb.matmul(logits[:, :10], logits[:, 10:13].new_ones(10, 4))
    assert values.dtype == product.dtype == torch.float32
    assert_same_bits(values, sb.logp(logits, targets))
    assert_same_bits(gradient, expected)


def test_flush_denormal_of_torch_changes_no_bits():
    logits = torch.tensor([[0.0, -88.0, -100.0, 2e-40], [-87.0, 0.0, -87.4, 1e-39]])
    targets = torch.tensor([3, 3])
    upstream = torch.tensor([1e-10, 1e-5])

    def run():
        leaf = logits.clone().requires_grad_()
        values = sb.logp(leaf, targets, return_lse=True)
        return values, torch.autograd.grad(values.logp, leaf, upstream)[0]

    values, gradient = run()
    try:
        torch.set_flush_denormal(True)
        flushed, flushed_gradient = run()
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(flushed.logp, values.logp)
    assert_same_bits(flushed.lse, values.lse)
    assert_same_bits(flushed_gradient, gradient)


def test_checkpointing_and_retained_graphs_give_the_same_gradient(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sb.logp(leaf, targets).sum(), leaf)
    checkpointed = torch.utils.checkpoint.checkpoint(sb.logp, leaf, targets, use_reentrant=False)
    assert_same_bits(torch.autograd.grad(checkpointed.sum(), leaf)[0], expected)


def test_backward_sees_logits_modified_in_place_and_raises(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    middle = leaf * 1
    values = sb.logp(middle, targets)
    middle.mul_(2)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        values.sum().backward()


def test_nothing_is_saved_but_the_inputs_and_a_few_numbers_per_row(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    saved = []

    def pack(tensor):
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        sb.logp(leaf, targets, return_entropy=True)
        recorded = len(saved)
        with torch.no_grad():
            sb.logp(leaf, targets, return_entropy=True)
    assert len(saved) == recorded
    inputs = {leaf.data_ptr(), targets.data_ptr()}
    own = sum(tensor.nbytes for tensor in saved if tensor.data_ptr() not in inputs)
    assert own == len(targets) * (4 + 8 + 8)  # M in float32, S and U as 64-bit integers
