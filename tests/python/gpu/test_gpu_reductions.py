"""masked_sum, masked_mean and the loss terms on the GPU: the bits of the CPU, and no wait for the device."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits

GPU = "cuda:0"
REAL = (torch.float32, torch.float64)


def patterns(count, dtype):
    """Numbers of all sizes, from raw bits; infinities and NaN become 1."""
    kind, ends = (torch.int32, 2**31) if dtype == torch.float32 else (torch.int64, 2**63)
    values = torch.randint(-ends, ends - 1, (count,)).to(kind).view(dtype)
    return torch.where(torch.isfinite(values), values, 1.0)


def everything(logp, old, advantages, mask, segments):
    """Per-sequence means of a GRPO loss, and the sums of its terms."""
    terms = sb.rl.clipped_ratio_loss(logp, old, advantages) + sb.rl.kl_k3(logp, old)
    means = sb.masked_mean(terms, mask, segments=segments, count=7, on_empty="zero")
    return means, sb.masked_sum(terms, mask), sb.masked_mean(sb.rl.ratio(logp, old))


def inputs(dtype, rows=5000):
    """Log-probs near and far from each other."""
    logp = -torch.rand(rows, dtype=dtype) * 20
    old = logp + torch.randn(rows, dtype=dtype) * 10.0 ** torch.randint(-7, 2, (rows,))
    return logp, old, torch.randn(rows, dtype=dtype), torch.rand(rows) < 0.8, torch.randint(-1, 8, (rows,))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("count", [0, 1, 33, 5000, 300_000])
def test_sums_and_means_have_the_bits_of_the_cpu(dtype, count):
    for values in (torch.randn(count, dtype=dtype), patterns(count, dtype)):
        mask = torch.rand(count) < 0.7
        segments = torch.randint(-1, 40, (count,))
        for options in ({}, {"segments": segments, "count": 39}):
            there = {k: v.to(GPU) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
            for reduce in (sb.masked_sum, sb.masked_mean):
                assert_same_bits(
                    reduce(values.to(GPU), mask.to(GPU), **there).cpu(), reduce(values, mask, **options)
                )


def test_values_that_take_several_steps():
    values = torch.randn((1 << 22) + 7)
    assert_same_bits(sb.masked_sum(values.to(GPU)).cpu(), sb.masked_sum(values))


@pytest.mark.parametrize("dtype", REAL)
def test_infinities_nan_and_cancellation(dtype):
    inf, nan = float("inf"), float("nan")
    for terms in ((inf, 1), (-inf, 1), (inf, -inf), (nan, 1), (-0.0, -0.0), (1, -1), (1e30, 1, -1e30), ()):
        values = torch.tensor(terms, dtype=dtype)
        for reduce in (sb.masked_sum, sb.masked_mean):
            assert_same_bits(reduce(values.to(GPU)).cpu(), reduce(values), str(terms))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("terms", [0, 1, 2])
def test_exponentials_have_the_bits_of_the_cpu(dtype, terms):
    x = torch.cat([torch.randn(20_000, dtype=dtype) * 10.0**k for k in (-8, -3, -1, 0, 1, 2)])
    ends = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 88.7, -103.9, 709.7, -745.0]
    x = torch.cat([x, torch.tensor(ends, dtype=dtype)])
    exp_tail = torch.ops.samebits.exp_tail.default
    assert_same_bits(exp_tail(x.to(GPU), terms).cpu(), exp_tail(x, terms))


@pytest.mark.parametrize("dtype", REAL)
def test_losses_and_gradients_have_the_bits_of_the_cpu(dtype):
    call = inputs(dtype)
    found = []
    for device in ("cpu", GPU):
        logp, *rest = (t.to(device) for t in call)
        leaf = logp.requires_grad_()
        values = everything(leaf, *rest)
        found.append([*values, *torch.autograd.grad(values, leaf, [torch.ones_like(v) for v in values])])
    for there, here in zip(found[1], found[0], strict=True):
        assert_same_bits(there.cpu(), here)


def test_the_host_does_not_wait():
    call = [t.to(GPU) for t in inputs(torch.float32)]
    leaf = call[0].requires_grad_()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        values = everything(leaf, *call[1:])
        torch.autograd.grad(values[0].sum() + values[1] + values[2], leaf)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_torch_calls_them_deterministic():
    call = [t.to(GPU) for t in inputs(torch.float32)]
    plain = everything(*call)
    torch.use_deterministic_algorithms(True)
    try:
        leaf = call[0].clone().requires_grad_()
        values = everything(leaf, *call[1:])
        torch.autograd.grad(values[1], leaf)
    finally:
        torch.use_deterministic_algorithms(False)
    for value, expected in zip(values, plain, strict=True):
        assert_same_bits(value, expected)


def test_a_graph_replays_the_bits():
    call = [t.to(GPU) for t in inputs(torch.float32)]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        everything(*call)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = everything(*call)
    call[0].add_(0.125)
    graph.replay()
    for value, expected in zip(captured, everything(*call), strict=True):
        assert_same_bits(value, expected)


def of_clipped(logp, old, advantages, mask, segments):
    clipped = sb.rl.clipped_ratio_loss(logp, old, advantages)
    return sb.masked_mean(clipped, mask, segments=segments, count=7, on_empty="zero")


def of_kl(logp, old, advantages, mask, segments):
    return sb.masked_sum(sb.rl.kl_k3(logp, old), mask)


def of_ratio(logp, old, advantages, mask, segments):
    return sb.masked_mean(sb.rl.ratio(logp, old))


@pytest.mark.parametrize("term", [of_clipped, of_kl, of_ratio])
def test_compiled_code_has_the_bits_of_eager(term):
    """Each by itself: the compiler may contract sums of terms and gradients, and drop a zero's sign."""
    torch._dynamo.reset()
    call = [t.to(GPU) for t in inputs(torch.float32)]
    found = []
    for function in (term, torch.compile(term, fullgraph=True)):
        leaf = call[0].clone().requires_grad_()
        value = function(leaf, *call[1:])
        found.append([value, *torch.autograd.grad(value, leaf, torch.ones_like(value))])
    for compiled, eager in zip(found[1], found[0], strict=True):
        assert_same_bits(compiled + 0.0, eager + 0.0)
