"""A29: tensors that are not on the current GPU. Collected on machines with two."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits


def test_a29_the_tensors_decide_where_the_work_runs():
    logits, targets = torch.randn(5, 3000), torch.arange(5)
    torch.cuda.set_device(0)
    leaf = logits.to("cuda:1").requires_grad_()
    values = sb.logp(leaf, targets.to("cuda:1"), return_entropy=True)
    (gradient,) = torch.autograd.grad(values.logp.sum() + values.entropy.sum(), leaf)
    assert torch.cuda.current_device() == 0
    assert values.logp.device == gradient.device == torch.device("cuda:1")
    on_cpu = logits.clone().requires_grad_()
    expected = sb.logp(on_cpu, targets, return_entropy=True)
    (expected_gradient,) = torch.autograd.grad(expected.logp.sum() + expected.entropy.sum(), on_cpu)
    assert_same_bits(values.logp.cpu(), expected.logp)
    assert_same_bits(gradient.cpu(), expected_gradient)
    assert sb.plan("logp", device="cuda:1").provenance["device_name"] == torch.cuda.get_device_name(1)


def test_a29_the_current_stream_is_that_of_the_tensors_device():
    logits = torch.zeros(256, 50000, device="cuda:1")
    targets = torch.zeros(256, dtype=torch.long, device="cuda:1")
    stream = torch.cuda.Stream("cuda:1")
    torch.cuda.synchronize("cuda:1")
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        logits.fill_(1.0)
        logits[:, 0] = 5.0
        values = sb.logp(logits, targets)
    stream.synchronize()
    assert_same_bits(values.cpu(), sb.logp(logits.cpu(), targets.cpu()))


def test_a29_an_embedding_runs_where_its_weight_is():
    ids, weight, upstream = torch.randint(0, 35, (3000,)), torch.randn(35, 64), torch.randn(3000, 64)
    torch.cuda.set_device(0)
    results = []
    for device in ("cpu", "cuda:1"):
        leaf = weight.to(device, copy=True).requires_grad_()
        rows = sb.embedding(ids.to(device), leaf)
        (gradient,) = torch.autograd.grad(rows, leaf, upstream.to(device))
        results.append((rows.cpu(), gradient.cpu()))
    assert torch.cuda.current_device() == 0
    for value, expected in zip(*results, strict=True):
        assert_same_bits(value, expected)


def test_a29_operands_on_two_gpus_are_refused_with_both_names():
    logits, targets = torch.randn(5, 30, device="cuda:0"), torch.arange(5, device="cuda:1")
    with pytest.raises((ValueError, RuntimeError), match=r"^targets: is on cuda:1.*cuda:0"):
        sb.logp(logits, targets)
