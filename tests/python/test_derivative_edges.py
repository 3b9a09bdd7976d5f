"""Derivatives at their edges: what is refused, NaNs, gradients changed in place."""

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

import samebits as sb
from support import assert_same_bits


@pytest.fixture
def call():
    """(logits [3, 5] float64, targets with one invalid id)."""
    return torch.randn(3, 5, dtype=torch.float64), torch.tensor([1, 4, -1])


def test_a_temperature_that_moves_is_refused_at_every_level(call):
    logits, targets = call
    tau = torch.ones(3, dtype=torch.float64)
    batch, ids, taus = logits.repeat(2, 1, 1), targets.repeat(2, 1), tau.repeat(2, 1)

    def mapped(x, temperatures):
        return vmap(lambda a, t, c: sb.logp(a, t, temperature=c))(x, ids, temperatures).sum()

    refused = (
        lambda: jvp(lambda t: sb.logp(logits, targets, temperature=t), (tau,), (tau,)),
        lambda: jvp(lambda a, t: sb.logp(a, targets, temperature=t), (logits, tau), (logits, tau)),
        lambda: grad(lambda t: sb.logp(logits, targets, temperature=t).sum())(tau),
        lambda: grad(mapped, argnums=(0, 1))(batch, taus),
        lambda: mapped(batch, taus.clone().requires_grad_()),
        lambda: jvp(lambda t: mapped(batch, t), (taus,), (taus,)),
    )
    for attempt in refused:
        with pytest.raises(ValueError, match=r"^temperature: requires grad or has a tangent"):
            attempt()
    constant = grad(lambda x: mapped(x, taus))(batch)
    assert_same_bits(constant, grad(lambda x: sb.logp(x, ids, temperature=taus).sum())(batch))


def test_a_batched_upstream_with_a_kept_graph_raises_instead_of_losing_it(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    values = sb.logp(leaf, targets)
    with pytest.raises(sb.NotDifferentiableError, match=r"is_grads_batched=True .* with create_graph=True"):
        torch.autograd.grad(values, leaf, torch.eye(3).double(), is_grads_batched=True, create_graph=True)
    with pytest.raises(sb.NotDifferentiableError, match=r"is_grads_batched=True .* with create_graph=True"):
        torch.autograd.functional.jacobian(
            lambda x: sb.logp(x, targets), leaf, vectorize=True, create_graph=True
        )
    weight = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    with pytest.raises(sb.NotDifferentiableError, match=r"is_grads_batched=True .* with create_graph=True"):
        torch.autograd.grad(
            sb.linear(logits, weight)[0],
            weight,
            torch.eye(4).double(),
            is_grads_batched=True,
            create_graph=True,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_nans_of_second_order_have_the_one_pattern_wherever_the_row_stands(dtype):
    logits, direction = torch.randn(4, 37).to(dtype), torch.randn(4, 37).to(dtype)
    logits[1, 0] = torch.nan
    logits[3, 5] = torch.inf
    targets = torch.tensor([0, 3, 5, 8])

    def product(rows):
        first = grad(lambda x: sb.logp(x, targets[rows]).sum())
        return vjp(first, logits[rows])[1](direction[rows])[0]

    whole = product(slice(0, 4))
    assert whole[1].isnan().all() and whole[3].isnan().all()
    for row in range(4):
        assert_same_bits(product(slice(row, row + 1))[0], whole[row])
    written = torch.func.grad(lambda x: sb.logp(x, targets).sum())(logits)
    assert_same_bits(whole[1], written[1])


def test_a_kept_gradient_may_be_changed_in_place(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(sb.logp(leaf, targets).sum(), leaf, create_graph=True)
    doubled = gradient.detach() * 2
    gradient.mul_(2)
    assert_same_bits(gradient.detach(), doubled)


@pytest.mark.parametrize("rows", [torch.tensor([True, False, True]), torch.tensor([1.9, 0.0])])
def test_a_row_list_of_a_wrong_dtype_is_refused_under_transforms_too(call, rows):
    logits, targets = call
    for attempt in (
        lambda: vmap(lambda x: sb.logp(x, targets, rows=rows))(logits[None]),
        lambda: grad(lambda x: sb.logp(x, targets, rows=rows).sum())(logits),
    ):
        with pytest.raises(TypeError, match=r"^rows: is "):
            attempt()


def test_the_lowest_id_is_an_id_like_any_other_under_transforms():
    logits, targets = torch.randn(2, 5), torch.tensor([-(2**63), 1])
    rows = torch.tensor([0])
    eager = sb.logp(logits, targets, rows=rows, on_invalid="nan")
    mapped = vmap(lambda x: sb.logp(x, targets, rows=rows, on_invalid="nan"))(logits[None])[0]
    assert eager[0].isnan() and eager[1] == 0
    assert_same_bits(mapped, eager)
