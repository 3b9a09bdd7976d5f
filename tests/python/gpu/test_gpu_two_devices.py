"""A29: tensors that are not on the current GPU. Collected on machines with two."""

import pytest
import torch

import samebits as sb
from support import DTYPES, assert_same_bits


@pytest.fixture(autouse=True)
def the_current_device_stays():
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize("cuda:1")


def _leaves(device, tensors):
    return [tensor.to(device, copy=True).requires_grad_() for tensor in tensors]


def test_a29_the_tensors_decide_where_the_work_runs():
    logits, targets = torch.randn(5, 3000), torch.arange(5)
    leaf = logits.to("cuda:1").requires_grad_()
    values = sb.logp(leaf, targets.to("cuda:1"), return_entropy=True)
    (gradient,) = torch.autograd.grad(values.logp.sum() + values.entropy.sum(), leaf)
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
    results = []
    for device in ("cpu", "cuda:1"):
        leaf = weight.to(device, copy=True).requires_grad_()
        rows = sb.embedding(ids.to(device), leaf)
        (gradient,) = torch.autograd.grad(rows, leaf, upstream.to(device))
        results.append((rows.cpu(), gradient.cpu()))
    for value, expected in zip(*results, strict=True):
        assert_same_bits(value, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [1, 8, 300], ids="{}_rows".format)
def test_a29_few_and_many_rows_run_where_they_are(rows, dtype):
    logits, targets = torch.randn(rows, 80000).to(dtype), torch.arange(rows)
    results = []
    for device in ("cpu", "cuda:1"):
        (leaf,) = _leaves(device, [logits])
        values = sb.logp(leaf, targets.to(device), temperature=0.7, return_lse=True, return_entropy=True)
        (gradient,) = torch.autograd.grad(values.logp.sum() + values.entropy.sum(), leaf)
        results.append([value.detach().cpu() for value in (*values, gradient)])
    for value, expected in zip(*results, strict=True):
        assert_same_bits(value, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("memory", ["recompute", "save"])
def test_a29_a_head_runs_where_its_tensors_are(memory, dtype):
    tensors = [(torch.randn(shape) / 2).to(dtype) for shape in ((130, 96), (1000, 96), (1000,))]
    targets = torch.arange(130) * 7 % 1000
    targets[5] = -100
    results = []
    for device in ("cpu", "cuda:1"):
        hidden, weight, bias = leaves = _leaves(device, tensors)
        values = sb.linear_logp(hidden, weight, targets.to(device), bias=bias, memory=memory)
        results.append([t.detach().cpu() for t in (values, *torch.autograd.grad(values.sum(), leaves))])
    for value, expected in zip(*results, strict=True):
        assert_same_bits(value, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a29_a_product_runs_where_its_operands_are(dtype):
    a, b = ((torch.randn(shape) / 2).to(dtype) for shape in ((300, 500), (500, 200)))
    results = []
    for device in ("cpu", "cuda:1"):
        leaves = _leaves(device, (a, b))
        product = sb.matmul(*leaves)
        results.append([t.detach().cpu() for t in (product, *torch.autograd.grad(product.sum(), leaves))])
    for value, expected in zip(*results, strict=True):
        assert_same_bits(value, expected)


def test_a29_calls_on_both_gpus_at_once_do_not_meet():
    logits, targets = torch.randn(1024, 40000), torch.arange(1024)
    expected = sb.logp(logits, targets)
    inputs = [(logits.to(f"cuda:{i}"), targets.to(f"cuda:{i}")) for i in range(2)]
    values = [sb.logp(*each) for _ in range(20) for each in inputs]
    for i, value in enumerate(values):
        assert value.device == torch.device(f"cuda:{i % 2}")
        assert_same_bits(value.cpu(), expected)


def test_a29_operands_on_two_gpus_are_refused_with_both_names():
    logits, targets = torch.randn(5, 30, device="cuda:0"), torch.arange(5, device="cuda:1")
    with pytest.raises((ValueError, RuntimeError), match=r"^targets: is on cuda:1.*cuda:0"):
        sb.logp(logits, targets)


def test_a29_a_head_over_two_gpus_is_refused_with_both_names():
    hidden, weight = torch.randn(4, 16, device="cuda:0"), torch.randn(50, 16, device="cuda:1")
    targets = torch.arange(4, device="cuda:0")
    with pytest.raises((ValueError, RuntimeError), match=r"^weight: is on cuda:1.*cuda:0"):
        sb.linear_logp(hidden, weight, targets)
    with pytest.raises((ValueError, RuntimeError), match=r"^targets: is on cuda:0.*cuda:1"):
        sb.linear_logp(hidden.to("cuda:1"), weight, targets)
    with pytest.raises((ValueError, RuntimeError), match=r"^b: is on cuda:1.*cuda:0"):
        sb.matmul(hidden, weight.T)
    with pytest.raises((ValueError, RuntimeError), match=r"^ids: is on cuda:0.*cuda:1"):
        sb.embedding(targets, weight)
