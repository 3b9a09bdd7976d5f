"""What broke others on GPUs; the letter and number are those of the project's list of field failures."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits

GPU = "cuda:0"


def test_a1_more_than_2_31_elements():
    rows, vocab = 16385, 131072
    logits = torch.zeros(rows, vocab, dtype=torch.bfloat16, device=GPU)
    logits[-1, 5] = 11.0
    targets = torch.zeros(rows, dtype=torch.long, device=GPU)
    targets[-1] = 5
    logits.requires_grad_()
    values = sb.logp(logits, targets)
    assert values[-1].item() == pytest.approx(-1.1597415, abs=1e-6)
    assert (values[:-1] + 11.7835021).abs().max().item() < 1e-6
    alone = logits.detach()[-1:].clone().requires_grad_()
    assert_same_bits(values[-1:], sb.logp(alone, targets[-1:]))
    upstream = torch.zeros(rows, device=GPU)
    upstream[-1] = 1
    (gradient,) = torch.autograd.grad(values, logits, upstream)
    assert gradient[-1, 5].item() == pytest.approx(0.68643, rel=2e-3)
    assert not gradient[:-1].any()
    (expected,) = torch.autograd.grad(sb.logp(alone, targets[-1:]).sum(), alone)
    assert_same_bits(gradient[-1:], expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("at", [0, 1023, 1024, 50000, 99999])
def test_a2_all_logits_but_one_are_masked(dtype, at):
    logits = torch.full((1, 100000), -torch.inf, dtype=dtype, device=GPU)
    logits[0, at] = 10.0
    logits.requires_grad_()
    values = sb.logp(logits, torch.tensor([at], device=GPU), return_entropy=True)
    values.logp.backward()
    assert values.logp.item() == 0.0 and values.entropy.item() == 0.0
    assert not logits.grad.any()


def test_a5_empty_batches():
    for shape in ([0, 9], [2, 0, 9]):
        logits = torch.randn(shape, device=GPU, requires_grad=True)
        targets = torch.zeros(shape[:-1], dtype=torch.long, device=GPU)
        values = sb.logp(logits, targets, return_lse=True)
        assert list(values.logp.shape) == list(values.lse.shape) == shape[:-1]
        values.logp.sum().backward()
        assert list(logits.grad.shape) == shape
    logits = torch.randn(3, 9, device=GPU, requires_grad=True)
    empty = torch.zeros(0, dtype=torch.long, device=GPU)
    values = sb.logp(logits, torch.arange(3, device=GPU), rows=empty)
    values.sum().backward()
    assert not values.any() and not logits.grad.any()
    torch.cuda.synchronize()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("leaf", [True, False])
def test_a9_the_logits_are_never_changed(dtype, leaf):
    raw = torch.randn(7, 11, dtype=dtype, device=GPU, requires_grad=True)
    logits = raw if leaf else raw.tanh()
    snapshot = logits.detach().clone()
    values = sb.logp(logits, torch.arange(7, device=GPU))
    first = torch.autograd.grad(values.sum(), raw, retain_graph=True)[0]
    assert_same_bits(torch.autograd.grad(values.sum(), raw, retain_graph=True)[0], first)
    (values.sum() + logits.square().mean()).backward()
    assert_same_bits(logits.detach(), snapshot)


def test_rows_beyond_65535():
    logits = torch.randn(70001, 33, device=GPU)
    targets = torch.randint(0, 33, (70001,), device=GPU)
    leaf = logits.clone().requires_grad_()
    values = sb.logp(leaf, targets)
    (gradient,) = torch.autograd.grad(values.sum(), leaf)
    on_cpu = logits.cpu().requires_grad_()
    expected = sb.logp(on_cpu, targets.cpu())
    assert_same_bits(values.cpu(), expected)
    assert_same_bits(gradient.cpu(), torch.autograd.grad(expected.sum(), on_cpu)[0])
