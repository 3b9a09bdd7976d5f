"""Gradients of linear_logp: bits of the first order however it is reached, derivatives beyond it, buffers."""

import itertools

import pytest
import torch

import samebits as sb
from support import assert_same_bits

OPS = torch.ops.samebits
UPSTREAM = torch.tensor([5.0, 1.0, -2.0, 0.0])


def head(rows=4, vocab=15, size=10, dtype=torch.float32, seed=0):
    """Leaves (hidden, weight, bias) and targets, the first of which is padding."""
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for shape in ((rows, size), (vocab, size), (vocab,))
    )
    targets = torch.randint(0, vocab, (rows,), generator=generator)
    targets[0] = -100
    return hidden, weight, bias, targets


def gradients(leaves, targets, upstream=None, **options):
    """The three first-order gradients of logp."""
    values = sb.linear_logp(leaves[0], leaves[1], targets, bias=leaves[2], **options)
    return torch.autograd.grad(values, leaves, torch.ones_like(values) if upstream is None else upstream)


def exact_gradients(leaves, targets, upstream):
    """The same by torch in float64."""
    hidden, weight, bias = (leaf.detach().double().requires_grad_() for leaf in leaves)
    logits = torch.nn.functional.linear(hidden, weight, bias)
    picked = logits.log_softmax(-1).gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.autograd.grad((picked * (targets >= 0)), (hidden, weight, bias), upstream.double())


def test_a10_every_token_has_its_own_upstream():
    *leaves, targets = head()
    # Sums of up to 15 terms, each with an error of a few roundings of float32.
    for actual, wanted in zip(
        gradients(leaves, targets, UPSTREAM), exact_gradients(leaves, targets, UPSTREAM), strict=True
    ):
        torch.testing.assert_close(actual.double(), wanted, rtol=2e-5, atol=2e-6)


def test_a4_a_batch_without_targets_has_gradients_of_exactly_zero():
    *leaves, targets = head()
    sb.linear_logp(leaves[0], leaves[1], torch.full_like(targets, -100), bias=leaves[2]).sum().backward()
    for leaf in leaves:
        assert_same_bits(leaf.grad, torch.zeros_like(leaf))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a11_frozen_operands_have_no_gradient_and_the_others_keep_their_bits(dtype):
    *leaves, targets = head(dtype=dtype)
    all_live = gradients(
        leaves, targets, UPSTREAM.to(torch.float64 if dtype == torch.float64 else torch.float32)
    )
    for live in itertools.product((False, True), repeat=3):
        hidden, weight, bias = (v.detach().requires_grad_(r) for v, r in zip(leaves, live, strict=True))
        values = sb.linear_logp(hidden, weight, targets, bias=bias)
        assert values.requires_grad == any(live)
        if any(live):
            values.backward(UPSTREAM.to(values.dtype))
        for leaf, r, wanted in zip((hidden, weight, bias), live, all_live, strict=True):
            if r:
                assert_same_bits(leaf.grad, wanted)
            else:
                assert leaf.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a13_values_and_first_order_bits_are_the_same_however_they_are_reached(dtype):
    *leaves, targets = head(dtype=dtype)
    recorded = sb.linear_logp(leaves[0], leaves[1], targets, bias=leaves[2])
    assert recorded.grad_fn is not None
    with torch.no_grad():
        assert_same_bits(sb.linear_logp(leaves[0], leaves[1], targets, bias=leaves[2]), recorded)
    with torch.inference_mode():
        assert_same_bits(sb.linear_logp(leaves[0], leaves[1], targets, bias=leaves[2]).clone(), recorded)
    wanted = gradients(leaves, targets)

    def call(hidden, weight, bias):
        return sb.linear_logp(hidden, weight, targets, bias=bias)

    ones = torch.ones_like(recorded)
    kept = torch.autograd.grad(call(*leaves), leaves, ones, create_graph=True)
    plain = [leaf.detach() for leaf in leaves]
    transformed = torch.func.vjp(call, *plain)[1](ones)
    summed = torch.func.grad(lambda *operands: call(*operands).sum(), argnums=(0, 1, 2))(*plain)
    for others in (kept, transformed, summed):
        for other, first in zip(others, wanted, strict=True):
            assert_same_bits(other.detach(), first)


def test_a27_derivatives_to_the_second_order():
    *leaves, targets = head(rows=3, vocab=5, size=4, dtype=torch.float64)
    temperature = torch.tensor([1.0, 0.5, 2.0])

    def call(hidden, weight, bias):
        logp, lse, entropy = sb.linear_logp(
            hidden, weight, targets, bias=bias, return_lse=True, return_entropy=True, temperature=temperature
        )
        return logp, torch.where(targets >= 0, lse, 0.0), entropy

    assert torch.autograd.gradcheck(call, leaves, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, leaves, check_fwd_over_rev=True)


def test_derivatives_with_padding_columns_rows_and_no_bias():
    hidden, weight, _, targets = head(rows=4, vocab=6, size=3, dtype=torch.float64)
    rows = torch.tensor([1, 2])

    def call(hidden, weight):
        return sb.linear_logp(hidden, weight, targets % 5, vocab_size=5, rows=rows)

    assert torch.autograd.gradcheck(call, (hidden, weight), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (hidden, weight))
    gradient = torch.autograd.grad(call(hidden, weight).sum(), (hidden, weight))
    assert_same_bits(gradient[1][5], torch.zeros(3, dtype=torch.float64))
    assert_same_bits(gradient[0][0], torch.zeros(3, dtype=torch.float64))


def test_what_padding_rows_hold_reaches_no_second_derivative():
    *leaves, targets = head(dtype=torch.float64)
    leaves[0].data[0] = torch.nan
    first = gradients(leaves, targets)
    call = sb.linear_logp(leaves[0], leaves[1], targets, bias=leaves[2])
    kept = torch.autograd.grad(call.sum(), leaves, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in kept), leaves)
    assert all(torch.isfinite(g).all() for g in (*first, *second))


def test_second_derivatives_of_narrower_operands_are_those_of_float64():
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
        *leaves, targets = head(dtype=dtype)
        wide = [leaf.detach().double().requires_grad_() for leaf in leaves]

        def second(operands, ids=targets):
            values = sb.linear_logp(operands[0], operands[1], ids, bias=operands[2])
            first = torch.autograd.grad(values.sum(), operands, create_graph=True)
            return torch.autograd.grad(sum(g.double().square().sum() for g in first), operands)

        for actual, wanted in zip(second(leaves), second(wide), strict=True):
            assert (actual.double() - wanted).norm() <= tolerance * wanted.norm()


def test_a26_transforms_equal_the_loop():
    *leaves, _ = head(rows=3, vocab=5, size=4, dtype=torch.float64)
    hidden, weight, bias = (leaf.detach() for leaf in leaves)
    targets = torch.tensor([1, 4, 0])

    def one(hidden, weight, target):
        return sb.linear_logp(hidden, weight, target, bias=bias)

    assert_same_bits(torch.vmap(one, (0, None, 0))(hidden, weight, targets), one(hidden, weight, targets))
    weights = torch.stack([weight, 2 * weight, -weight])
    looped = torch.stack([one(hidden[i], weights[i], targets[i]) for i in range(3)])
    assert_same_bits(torch.vmap(one)(hidden, weights, targets), looped)
    nothing = torch.vmap(one)(hidden[:0].unsqueeze(1), weights[:0], targets[:0].unsqueeze(1))
    assert nothing.shape == (0, 1)
    per_sample = torch.vmap(torch.func.grad(one, argnums=(0, 1)), (0, None, 0))(hidden, weight, targets)
    for i in range(3):
        alone = torch.func.grad(one, argnums=(0, 1))(hidden[i], weight, targets[i])
        for batched, single in zip(per_sample, alone, strict=True):
            assert_same_bits(batched[i], single)
    reverse = torch.func.jacrev(one)(hidden, weight, targets)
    torch.testing.assert_close(
        torch.func.jacfwd(one)(hidden, weight, targets), reverse, rtol=1e-12, atol=1e-12
    )
    hessian = torch.func.hessian(lambda w: one(hidden, w, targets).sum())(weight).reshape(20, 20)
    torch.testing.assert_close(hessian, hessian.t(), rtol=1e-10, atol=1e-12)


def test_a28_compiled_training_has_the_same_bits():
    for rows in (1, 4, 7):
        *leaves, targets = head(rows=rows)

        def step(hidden, weight, bias, ids):
            return sb.linear_logp(hidden, weight, ids, bias=bias, return_lse=True)

        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
        logp, lse = compiled(*leaves, targets)
        plain, plain_lse = step(*leaves, targets)
        assert_same_bits(logp, plain)
        assert_same_bits(lse, plain_lse)
        for actual, wanted in zip(
            torch.autograd.grad(logp.sum(), leaves), gradients(leaves, targets), strict=True
        ):
            assert_same_bits(actual, wanted)


def test_operators_pass_opcheck():
    *leaves, targets = head()
    hidden, weight, bias = (leaf.detach() for leaf in leaves)
    for asked in itertools.product((False, True), repeat=2):
        torch.library.opcheck(
            OPS.linear_logp_forward.default, (hidden, weight, targets, bias, *asked, True, "auto", 2)
        )
    *statistics, saved = OPS.linear_logp_forward(hidden, weight, targets, bias, True, True, True, "auto", 2)[
        3:
    ]
    assert saved.shape == (0, 64)
    call = (hidden, weight, targets, bias, *statistics, UPSTREAM, None, UPSTREAM)
    for wanted in itertools.product((False, True), repeat=3):
        torch.library.opcheck(OPS.linear_logp_backward.default, (*call, *wanted, "auto", saved))
    buffer = torch.zeros_like(weight)
    torch.library.opcheck(OPS.linear_logp_backward_into.default, (*call, buffer, True, True, "auto", None))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_an_accumulator_holds_the_sum_of_micro_batches(dtype):
    hidden, weight, _, targets = head(rows=6, dtype=dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    buffer = torch.zeros(weight.shape, dtype=wide)
    for part in (slice(0, 3), slice(3, 6)):
        sb.linear_logp(hidden[part], weight, targets[part], grad_weight_accumulator=buffer).sum().backward()
    assert weight.grad is None and hidden.grad is not None
    if dtype == wide:
        parts = [
            torch.autograd.grad(sb.linear_logp(hidden[p], weight, targets[p]).sum(), weight)[0]
            for p in (slice(0, 3), slice(3, 6))
        ]
        assert_same_bits(buffer, (0.0 + parts[0]) + parts[1])
    else:
        alone = torch.zeros_like(buffer)
        sb.linear_logp(hidden[3:], weight, targets[3:], grad_weight_accumulator=alone).sum().backward()
        (rounded,) = torch.autograd.grad(sb.linear_logp(hidden[3:], weight, targets[3:]).sum(), weight)
        assert_same_bits(alone.to(dtype), rounded)


def test_accumulators_that_cannot_be_used_are_refused():
    hidden, weight, bias, targets = head()
    good = torch.zeros_like(weight)

    def call(buffer, w=weight):
        return sb.linear_logp(hidden, w, targets, bias=bias, grad_weight_accumulator=buffer)

    for buffer, error, message in (
        (torch.zeros(15, 9), ValueError, r"grad_weight_accumulator: has shape \[15, 9\]; must be \[15, 10\]"),
        (good.double(), TypeError, "grad_weight_accumulator: is float64; must be float32"),
        (good.clone().requires_grad_(), ValueError, "grad_weight_accumulator: requires grad"),
        (3.0, TypeError, "grad_weight_accumulator: is a float; must be a torch.Tensor"),
    ):
        with pytest.raises(error, match=message):
            call(buffer)
    with pytest.raises(ValueError, match="grad_weight_accumulator: weight does not require grad"):
        call(good, weight.detach())
    with pytest.raises(sb.NotDifferentiableError, match="create_graph"):
        torch.autograd.grad(call(good).sum(), hidden, create_graph=True)
    with pytest.raises(sb.NotDifferentiableError, match="transforms"):
        torch.func.grad(lambda w: call(good, w).sum())(weight.detach())
    assert not good.any()


def layouts(hidden, targets):
    """The same tokens packed, padded with rows of junk, and picked by a row list: (hidden, targets, rows)."""
    count, size = hidden.shape
    wide = torch.full((2 * count, size), 7.0, dtype=hidden.dtype)
    wide[::2] = hidden
    padded = torch.full((2 * count,), -100)
    padded[::2] = targets
    every = torch.zeros(2 * count, dtype=torch.int64)
    every[::2] = targets
    listed = torch.arange(0, 2 * count, 2).flip(0)
    return (
        (hidden, targets, None),
        (wide.view(2, count, size), padded.view(2, count), None),
        (wide, every, listed),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_three_steps_of_training_are_bit_equal_between_layouts(dtype):
    hidden, weight, bias, targets = head(rows=8, vocab=40, dtype=dtype)
    states = []
    for rows, ids, listed in layouts(hidden.detach(), targets):
        w, b = (v.detach().clone().requires_grad_() for v in (weight, bias))
        x = rows.clone().requires_grad_()
        optimizer = torch.optim.SGD((w, b), lr=0.5)
        for _ in range(3):
            optimizer.zero_grad()
            sb.linear_logp(x, w, ids, bias=b, rows=listed).sum().neg().backward()
            optimizer.step()
        states.append((w.detach(), b.detach()))
        assert torch.isfinite(x.grad).all()
    for w, b in states[1:]:
        assert_same_bits(w, states[0][0])
        assert_same_bits(b, states[0][1])


def test_a12_mixed_dtypes_are_refused_and_autocast_changes_nothing():
    hidden, weight, _, targets = head()
    with pytest.raises(TypeError, match="weight: is float32 but hidden is bfloat16"):
        sb.linear_logp(hidden.bfloat16(), weight, targets)
    plain = torch.autograd.grad(sb.linear_logp(hidden, weight, targets).sum(), (hidden, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        values = sb.linear_logp(hidden, weight, targets)
    for actual, wanted in zip(torch.autograd.grad(values.sum(), (hidden, weight)), plain, strict=True):
        assert_same_bits(actual, wanted)
