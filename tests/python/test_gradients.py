"""First-order gradients against float64 autograd of log_softmax, and gradcheck."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits


def reference(logits, targets, temperature=1.0):
    """(logp, lse, entropy) composed from PyTorch, in float64; `logits` is a float64 leaf."""
    z = logits / temperature
    log_p = z.log_softmax(-1)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1), z.logsumexp(-1), entropy


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_gradients_of_all_outputs_are_those_of_float64_autograd(dtype, temperature):
    logits = (torch.randn(6, 1000) * 5).to(dtype).requires_grad_()
    targets = torch.randint(0, 1000, (6,))
    upstream = [torch.randn(6, dtype=torch.float64) for _ in range(3)]
    wide = logits.detach().double().requires_grad_()
    expected_values = reference(wide, targets, temperature)
    (expected,) = torch.autograd.grad(expected_values, wide, upstream)
    values = sb.logp(logits, targets, temperature=temperature, return_lse=True, return_entropy=True)
    (actual,) = torch.autograd.grad(values, logits, [u.to(values.logp.dtype) for u in upstream])

    narrow = values.logp.dtype == torch.float32
    # row.v1: relative error of p at most 1e-6 + 7.4e-8 |z - M|, |z - M| < 60 here; the factor k carries the
    # upstreams and |z - M| once more through the entropy, hence 200. row64.v1: 2^-29 times that. Then one
    # rounding to the dtype of the logits.
    bound = (1e-6 + 7.4e-8 * 60) * 200 * (1 if narrow else 2.0**-29)
    half_ulp = {
        torch.float32: 2.0**-24,
        torch.bfloat16: 2.0**-8,
        torch.float16: 2.0**-11,
        torch.float64: 2.0**-53,
    }
    p = (wide.detach() / temperature).softmax(-1)
    tolerance = bound * (p + torch.nn.functional.one_hot(targets, 1000)) + expected.abs() * half_ulp[dtype]
    tolerance += 2.0**-25 if dtype == torch.float16 else 1e-36  # subnormal results
    assert ((actual.double() - expected).abs() <= tolerance).all()
    for got, wanted in zip(values, expected_values, strict=True):
        error = (got.double() - wanted).abs()
        assert (
            error <= (2e-6 + wanted.abs() * 2.0**-23 if narrow else 4e-15 + wanted.abs() * 2.0**-51)
        ).all()


@pytest.mark.parametrize(
    "temperature", [None, 0.7, torch.tensor([0.5, 1.0, 2.0])], ids=["none", "scalar", "rows"]
)
def test_gradcheck_in_float64(temperature):
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 4, -1])

    def call(x):
        return tuple(sb.logp(x, targets, temperature=temperature, return_lse=True, return_entropy=True))

    # An ignored row has lse -inf, which finite differences cannot take; its gradient is zero by definition.
    assert torch.autograd.gradcheck(lambda x: tuple(v[:2] for v in call(x)), (logits,))


def test_each_output_alone_drives_the_gradient():
    logits = torch.randn(4, 33, dtype=torch.float64)
    targets = torch.tensor([1, 2, 3, 32])
    for name in ("logp", "lse", "entropy"):
        wide = logits.clone().requires_grad_()
        index = ("logp", "lse", "entropy").index(name)
        (expected,) = torch.autograd.grad(reference(wide, targets)[index].sum(), wide)
        leaf = logits.clone().requires_grad_()
        values = sb.logp(leaf, targets, return_lse=True, return_entropy=True)
        (actual,) = torch.autograd.grad(getattr(values, name).sum(), leaf)
        assert torch.allclose(actual, expected, rtol=0, atol=1e-14)


def test_a_missing_upstream_counts_as_zero():
    logits = torch.randn(4, 300, requires_grad=True)
    targets = torch.tensor([1, 2, 3, 299])
    values = sb.logp(logits, targets, return_lse=True, return_entropy=True)
    upstream, zero = torch.randn(4), torch.zeros(4)
    (missing,) = torch.autograd.grad(values.logp, logits, upstream, retain_graph=True)
    (given,) = torch.autograd.grad(values, logits, (upstream, zero, zero))
    assert_same_bits(missing, given)
    (plain,) = torch.autograd.grad(sb.logp(logits, targets), logits, upstream)
    assert_same_bits(plain, given)


def test_the_gradient_has_one_bits_whether_or_not_a_graph_is_kept():
    logits = torch.randn(4, 300, requires_grad=True)
    targets = torch.tensor([1, 2, 3, 299])
    total = sb.logp(logits, targets).sum()
    (first,) = torch.autograd.grad(total, logits, retain_graph=True)
    (kept,) = torch.autograd.grad(total, logits, create_graph=True)
    assert_same_bits(kept, first)
    assert_same_bits(torch.func.grad(lambda x: sb.logp(x, targets).sum())(logits.detach()), first)


def test_upstreams_may_have_any_strides():
    logits = torch.randn(6, 129, requires_grad=True)
    targets = torch.arange(6)
    values = sb.logp(logits, targets)
    upstream = torch.randn(6, 4)
    (strided,) = torch.autograd.grad(values, logits, upstream[:, 2], retain_graph=True)
    (dense,) = torch.autograd.grad(values, logits, upstream[:, 2].contiguous(), retain_graph=True)
    assert_same_bits(strided, dense)
    (expanded,) = torch.autograd.grad(values.sum(), logits, retain_graph=True)
    (ones,) = torch.autograd.grad(values, logits, torch.ones(6))
    assert_same_bits(expanded, ones)


def test_a_model_trained_through_it_moves_as_with_log_softmax():
    torch.manual_seed(1)
    hidden, targets = torch.randn(64, 16, dtype=torch.float64), torch.randint(0, 50, (64,))
    results = []
    for ours in (True, False):
        torch.manual_seed(2)
        layer = torch.nn.Linear(16, 50, dtype=torch.float64)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            logits = layer(hidden)
            values = sb.logp(logits, targets) if ours else reference(logits, targets)[0]
            (-values.mean()).backward()
            optimizer.step()
        results.append(layer.weight.detach().clone())
    assert torch.allclose(*results, rtol=1e-12, atol=1e-14)
