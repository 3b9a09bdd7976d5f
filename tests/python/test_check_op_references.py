"""References of the check of operators: their formulas against 50 digits and against autograd."""

import mpmath
import pytest
import torch

from samebits.check.op import exact_losses
from samebits.check.op.exact import pieces, tree_sum
from samebits.check.op.exact_logp import Head, Row
from samebits.check.op.exact_lookup import of_weight
from samebits.check.op.exact_products import Products, transposed

U = 2.0**-53


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def value(parts, shape) -> torch.Tensor:
    """The parts put together; each element is covered once."""
    found = torch.full(shape, torch.nan, dtype=torch.float64)
    for part in parts:
        assert found[part.index].isnan().all()
        found[part.index] = part.value
    assert not found.isnan().any()
    return found


def size(parts, name: str, shape) -> torch.Tensor:
    found = torch.full(shape, torch.nan, dtype=torch.float64)
    for part in parts:
        found[part.index] = part.sizes[name].value
    return found


def test_logp_lse_and_entropy_are_right_to_the_last_bits():
    x, targets = (
        normal(4, 9) * torch.tensor([0.1, 1.0, 5.0, 30.0]).double().unsqueeze(-1),
        torch.tensor([0, 3, 8, 2]),
    )
    outputs = Row(x, targets).outputs(None, 0)
    with mpmath.workdps(50):
        for row in range(4):
            z = [mpmath.mpf(v) for v in x[row].tolist()]
            lse = mpmath.log(sum(mpmath.exp(v) for v in z))
            p = [mpmath.exp(v - lse) for v in z]
            wanted = {
                "logp": z[int(targets[row])] - lse,
                "lse": lse,
                "entropy": -sum(q * mpmath.log(q) for q in p),
            }
            for name, exact in wanted.items():
                (part,) = outputs[name]
                # Within what the cells allow the reference: 32 u and 2 u of the scale.
                allowed = 32 * U + 2 * U * float(part.sizes["scale"].value[row]) + U * abs(exact)
                assert abs(mpmath.mpf(float(part.value[row])) - exact) <= allowed, (row, name)


def test_the_target_of_a_confident_row_keeps_its_digits():
    x = torch.tensor([[40.0, 0.0, 1.0]], dtype=torch.float64)
    (part,) = Row(x, torch.tensor([0])).of_logits(torch.ones(1))
    with mpmath.workdps(50):
        exact = (1 + mpmath.e) / (mpmath.exp(40) + 1 + mpmath.e)
        assert abs(mpmath.mpf(float(part.value[0, 0])) / exact - 1) < 1e-14


def composed(hidden, weight, targets, upstream):
    leaves = [t.clone().requires_grad_() for t in (hidden, weight)]
    logits = leaves[0] @ leaves[1].t()
    logp = logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return torch.autograd.grad(logp, leaves, upstream)


def test_gradients_of_a_head_are_those_of_autograd(monkeypatch):
    monkeypatch.setattr("samebits.check.op.exact.PART", 40)  # in parts, the last one short
    hidden, weight = normal(6, 5), normal(11, 5, seed=1)
    targets, upstream = torch.tensor([0, 10, 3, 3, 7, 0]), normal(6, seed=2)
    head = Head(hidden, weight, targets, upstream)
    of_hidden, of_weight_ = composed(hidden, weight, targets, upstream)
    torch.testing.assert_close(value(head.of_hidden(), (6, 5)), of_hidden, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(value(head.of_weight(), (11, 5)), of_weight_, rtol=1e-13, atol=1e-14)
    p = (hidden @ weight.t()).softmax(-1)
    others = -upstream.unsqueeze(-1) * p.scatter(-1, targets.unsqueeze(-1), 0.0)
    spread = (others.t().unsqueeze(-1) * hidden).square().sum(1).sqrt()  # by its definition
    torch.testing.assert_close(size(head.of_weight(), "spread", (11, 5)), spread)
    hit = torch.nn.functional.one_hot(targets, 11).double()
    target = torch.einsum("tv,t,tk->vk", hit, upstream.abs(), hidden.abs())
    torch.testing.assert_close(size(head.of_weight(), "target", (11, 5)), target)


def test_gradients_of_products_and_lookups_are_those_of_autograd(monkeypatch):
    monkeypatch.setattr("samebits.check.op.exact.PART", 30)
    x, weight, bias, upstream = normal(4, 7), normal(9, 7, seed=1), normal(9, seed=2), normal(4, 9, seed=3)
    exact = Products(x, weight, bias, upstream)
    leaves = [t.clone().requires_grad_() for t in (x, weight, bias)]
    product = torch.nn.functional.linear(*leaves)
    wanted = torch.autograd.grad(product, leaves, upstream)
    torch.testing.assert_close(value(exact.product(), (4, 9)), product.detach())
    torch.testing.assert_close(value(exact.of_x(), (4, 7)), wanted[0])
    torch.testing.assert_close(value(exact.of_weight(), (9, 7)), wanted[1])
    torch.testing.assert_close(value(transposed(exact.of_weight()), (7, 9)), wanted[1].t())
    torch.testing.assert_close(value(exact.of_bias(), (9,)), wanted[2])
    spread = (x.unsqueeze(1) * weight).square().sum(-1).sqrt()
    torch.testing.assert_close(size(exact.product(), "spread", (4, 9)), spread)
    ids, leaf = torch.tensor([2, 0, 2, 8]), weight.clone().requires_grad_()
    (wanted,) = torch.autograd.grad(torch.nn.functional.embedding(ids, leaf), leaf, upstream[:, :7])
    torch.testing.assert_close(value(of_weight(ids, weight, upstream[:, :7]), (9, 7)), wanted)


def test_loss_terms_are_right_to_the_last_bits():
    difference = torch.tensor([-2.0, -0.25, -1 / 64, 0.0, 1 / 64, 1.5, 2.0], dtype=torch.float64)
    zero, one = torch.zeros_like(difference), torch.ones_like(difference)
    found = exact_losses.Divergence(zero, difference, one)
    with mpmath.workdps(50):
        for d, k3, slope in zip(difference.tolist(), value(found.value(), (7,)).tolist(),
                                value(found.of_logp(), (7,)).tolist(), strict=True):  # fmt: skip
            exact = mpmath.expm1(d) - d
            assert abs(k3 - exact) <= 14 * U * exact
            assert abs(slope + mpmath.expm1(d)) <= 5 * U * abs(mpmath.expm1(d))


def test_the_clipped_ratio_is_minus_the_smaller_product():
    logp, advantages = normal(50), normal(50, seed=1)
    leaves = [t.clone().requires_grad_() for t in (logp, advantages)]
    ratio = leaves[0].exp()
    loss = -torch.min(ratio * leaves[1], ratio.clamp(0.8, 1.2) * leaves[1])
    wanted = torch.autograd.grad(loss.sum(), leaves)
    found = exact_losses.Ratio(logp, torch.zeros_like(logp), advantages, torch.ones_like(logp))
    torch.testing.assert_close(value(found.value(), (50,)), loss.detach())
    torch.testing.assert_close(value(found.of_logp(), (50,)), wanted[0])
    torch.testing.assert_close(value(found.of_logp(-1), (50,)), -wanted[0])
    torch.testing.assert_close(value(found.of_advantages(), (50,)), wanted[1])


@pytest.mark.parametrize("length", [1, 2, 3, 7, 128, 1000])
def test_a_tree_adds_everything_once(length):
    x = torch.arange(3 * length, dtype=torch.float64).view(3, length)
    assert torch.equal(tree_sum(x), x.sum(-1))
    assert sum(at.stop - at.start for at in pieces(length, 1 << 23)) == length
