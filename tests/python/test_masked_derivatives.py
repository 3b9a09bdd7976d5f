"""Derivatives, transforms and compilation of masked_sum, masked_mean and the loss terms of samebits.rl."""

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import samebits as sb
from support import assert_same_bits

MASK = torch.tensor([[True, True, False], [True, False, True], [False, False, False]])
ROWS = torch.arange(3)[:, None].expand(3, 3)
REDUCTIONS = {
    "sum": lambda v: sb.masked_sum(v, MASK),
    "mean": lambda v: sb.masked_mean(v, MASK),
    "sums": lambda v: sb.masked_sum(v, MASK, segments=ROWS, count=3),
    "means": lambda v: sb.masked_mean(v, MASK, segments=ROWS, count=3, on_empty="zero"),
    "plain": lambda v: sb.masked_mean(v),
}
OLD = torch.tensor([[-1.0, -2.0, -0.3], [-4.0, -0.1, -2.5], [-1.5, -2.0, -3.0]], dtype=torch.float64)
ADVANTAGES = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)[:, None].expand(3, 3)
TERMS = {
    "ratio": lambda x: sb.rl.ratio(x, OLD.to(x.dtype)),
    "clipped": lambda x: sb.rl.clipped_ratio_loss(x, OLD.to(x.dtype), ADVANTAGES.to(x.dtype)),
    "k3": lambda x: sb.rl.kl_k3(x, OLD.to(x.dtype)),
}
# Far from the corners of the clipped term, and near enough for k3's short form.
NEW = OLD + torch.tensor([[0.1, -0.3, 0.4], [0.7, -0.1, 0.05], [1e-3, 0.0, -0.6]], dtype=torch.float64)
CALLS = {**REDUCTIONS, **TERMS}


@pytest.fixture(autouse=True)
def fresh_compiler():
    """No compiled code of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CALLS)
def test_first_and_second_derivatives(name):
    leaf = NEW.clone().requires_grad_()
    assert gradcheck(CALLS[name], (leaf,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda v: CALLS[name](v) ** 2, (leaf,), check_fwd_over_rev=True)


@pytest.mark.parametrize("name", CALLS)
def test_transforms_agree_with_autograd(name):
    call = CALLS[name]
    one = lambda v: (call(v) ** 2).sum()  # noqa: E731
    leaf = NEW.clone().requires_grad_()
    (expected,) = torch.autograd.grad(one(leaf), leaf)
    assert_same_bits(grad(one)(NEW), expected)
    assert torch.equal(jacrev(call)(NEW), jacfwd(call)(NEW))  # but for the signs of zeros, which are products
    twice = torch.autograd.functional.hessian(one, NEW)
    torch.testing.assert_close(hessian(one)(NEW), twice, rtol=1e-12, atol=1e-14)  # another order of products
    direction = torch.ones_like(NEW)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(call(forward_ad.make_dual(NEW, direction))).tangent
    assert_same_bits(jvp(call, (NEW,), (direction,))[1], tangent)


@pytest.mark.parametrize("name", CALLS)
def test_vmap_has_the_bits_of_the_loop(name):
    call, batch = CALLS[name], torch.stack([NEW, NEW * 1.3, NEW - 0.1]).float()
    looped = torch.stack([call(sample) for sample in batch])
    assert_same_bits(vmap(call)(batch), looped)
    assert_same_bits(vmap(call, in_dims=2)(batch.movedim(0, 2).contiguous()), looped)
    assert_same_bits(
        vmap(grad(lambda v: call(v).sum()))(batch),
        torch.stack([grad(lambda v: call(v).sum())(sample) for sample in batch]),
    )
    nested = vmap(vmap(call))(torch.stack([batch, batch + 1]))
    assert_same_bits(nested[0], looped)


def test_masks_and_segments_may_be_mapped():
    values, masks = torch.randn(4, 3, 3), torch.rand(4, 3, 3) < 0.5
    segments = torch.randint(-1, 3, (4, 3, 3))

    def call(v, m, s):
        return sb.masked_mean(v, m, segments=s, count=2, on_empty="zero")

    looped = torch.stack([call(*sample) for sample in zip(values, masks, segments, strict=True)])
    assert_same_bits(vmap(call)(values, masks, segments), looped)
    shared = vmap(call, in_dims=(None, 0, None))(values[0], masks, segments[0])
    assert_same_bits(shared, torch.stack([call(values[0], m, segments[0]) for m in masks]))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_code_has_the_bits_of_eager(backend):
    def loss(logp, old, reference, advantages, mask, rows):
        terms = sb.rl.clipped_ratio_loss(logp, old, advantages) + sb.rl.kl_k3(logp, reference)
        return sb.masked_mean(sb.masked_mean(terms, mask, segments=rows, count=3, on_empty="zero"))

    inputs = [t.float() for t in (NEW, OLD, OLD - 0.2, ADVANTAGES)]
    found = []
    for function in (loss, torch.compile(loss, fullgraph=True, backend=backend)):
        leaf = inputs[0].clone().requires_grad_()
        value = function(leaf, *inputs[1:], MASK, ROWS)
        found.append((value.detach(), *torch.autograd.grad(value, leaf)))
    for eager, compiled in zip(*found, strict=True):
        assert_same_bits(compiled, eager)


@pytest.mark.parametrize("mean", [False, True])
def test_operators_are_declared_well(mean):
    values, segments = torch.randn(5, requires_grad=False), torch.tensor([0, 1, 1, 0, 2])
    mask = segments > 0
    for included, rows, count in ((None, None, 1), (mask, None, 1), (mask, segments, 3)):
        arguments = (values, included, rows, count, mean, False)
        torch.library.opcheck(torch.ops.samebits.masked_reduce.default, arguments)
        arguments = (torch.randn(count), included, rows, count, mean, (5,))
        torch.library.opcheck(torch.ops.samebits.masked_spread.default, arguments)
    torch.library.opcheck(torch.ops.samebits.exp_tail.default, (values, 2))


def test_autocast_and_meta_tensors_change_nothing():
    def call(logp, old, mask):
        return sb.masked_mean(sb.rl.clipped_ratio_loss(logp, old, old) + sb.rl.kl_k3(logp, old), mask)

    logp, old = NEW.float(), OLD.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = call(logp, old, MASK)
    assert_same_bits(mixed, call(logp, old, MASK))
    meta = call(logp.to("meta"), old.to("meta"), MASK.to("meta"))
    assert (meta.shape, meta.dtype, meta.device.type) == ((), torch.float32, "meta")


def test_a_graph_of_batched_upstreams_is_refused():
    leaf = torch.randn(3, 3, requires_grad=True)
    value = sb.masked_sum(leaf, segments=ROWS, count=3)
    with pytest.raises(sb.NotDifferentiableError, match="is_grads_batched"):
        torch.autograd.grad(value, leaf, torch.eye(3), is_grads_batched=True, create_graph=True)
