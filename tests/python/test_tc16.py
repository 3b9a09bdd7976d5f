"""tc16.v1, the contract of 16-bit products: rows, rounding, gradients, the head, accuracy, field failures."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samebits as sb
from support import assert_same_bits

HALVES = (torch.bfloat16, torch.float16)
both = pytest.mark.parametrize("dtype", HALVES, ids=str)


@given(st.integers(1, 9), st.integers(0, 70), st.integers(1, 60), st.integers(0, 999), st.data())
def test_rows_of_a_product_do_not_see_each_other(rows, depth, columns, seed, data):
    generator = torch.Generator().manual_seed(seed)
    dtype = data.draw(st.sampled_from(HALVES))
    a = torch.randn(rows, depth, generator=generator).to(dtype)
    b = torch.randn(depth, columns, generator=generator).to(dtype)
    whole = sb.matmul(a, b, out_dtype=torch.float32)
    row = data.draw(st.integers(0, rows - 1))
    assert_same_bits(sb.matmul(a[row : row + 1], b, out_dtype=torch.float32), whole[row : row + 1])
    assert_same_bits(sb.matmul(a.t().contiguous().t(), b.t().contiguous().t()), whole.to(dtype))
    # A step of 16 products loses less than 17 * 2^-25 of the largest addend, and 2^-23 of its own result.
    error = (whole.double() - a.double() @ b.double()).abs()
    size = a.double().abs() @ b.double().abs()
    assert (error <= (depth + 16) * 2.0**-23 * size).all()


@both
def test_auto_means_tc16_and_the_plan_says_so(dtype):
    a, b = torch.randn(5, 700).to(dtype), torch.randn(700, 33).to(dtype)
    by_name = sb.matmul(a, b, contract="tc16", out_dtype=torch.float32)
    assert_same_bits(sb.matmul(a, b, out_dtype=torch.float32), by_name)
    assert not torch.equal(sb.matmul(a, b, contract="fma", out_dtype=torch.float32), by_name)
    assert sb.plan("matmul", a, b).contract == "tc16.v1"
    head = sb.plan("linear_logp", a, b.t(), torch.zeros(5, dtype=torch.int64))
    assert head.contract == "tc16.v1+row.v1" and head.level == "cross_device" and head.can_run


@both
def test_the_bias_is_added_before_the_only_rounding(dtype):
    x, weight, bias = (torch.randn(shape).to(dtype) for shape in ((6, 40), (9, 40), (9,)))
    wide = sb.matmul(x, weight.t(), out_dtype=torch.float32) + bias.float()
    assert_same_bits(sb.linear(x, weight, bias), wide.to(dtype))
    assert_same_bits(sb.linear(x, weight, bias, out_dtype=torch.float32), wide)


@both
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=str)
def test_gradients_are_products_of_the_contract(dtype, out_dtype):
    a = torch.randn(6, 50).to(dtype).requires_grad_()
    b = torch.randn(50, 7).to(dtype).requires_grad_()
    out = sb.matmul(a, b, out_dtype=out_dtype)
    upstream = torch.randn(6, 7).to(out.dtype)
    to_a, to_b = torch.autograd.grad(out, (a, b), upstream)
    rounded = upstream.to(dtype)
    assert_same_bits(to_a, sb.matmul(rounded, b.detach().t()))
    assert_same_bits(to_b, sb.matmul(a.detach().t(), rounded))


@both
@given(st.integers(1, 7), st.sampled_from([1, 2, 33, 127, 128, 129, 300]), st.integers(0, 999), st.data())
def test_the_fused_head_equals_the_unfused_one(dtype, rows, vocab, seed, data):
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, 24, generator=generator).to(dtype)
    weight = torch.randn(vocab, 24, generator=generator).to(dtype)
    bias = torch.randn(vocab, generator=generator).to(dtype) if data.draw(st.booleans()) else None
    targets = torch.randint(-1, vocab + 1, (rows,), generator=generator)
    contract = data.draw(st.sampled_from(["auto", "fma", "tc16"]))
    options = {
        "return_lse": True,
        "return_entropy": True,
        "temperature": data.draw(st.sampled_from([None, 0.7])),
    }
    fused = sb.linear_logp(hidden, weight, targets, bias=bias, contract=contract, **options)
    logits = sb.linear(hidden, weight, bias, contract=contract, out_dtype=torch.float32)
    for one, other, name in zip(fused, sb.logp(logits, targets, **options), fused._fields, strict=True):
        assert_same_bits(one, other, name)


# Truncation loses on one side, so a logit whose products have one sign drifts toward zero, one of mixed signs
# hardly. "one": the target's drifts; "alike": all of them, the same way, so that little is left of it in a
# difference; "apart": half of the columns upward and half downward.
FORMS = {"usual": 1, "one": 1, "alike": 1, "apart": 2}


def head_of(form, dtype, largest):
    """(hidden, weight, targets) of a real hidden size, logits up to `largest`."""
    generator = torch.Generator().manual_seed(3)
    hidden, weight = torch.randn(64, 2688, generator=generator), torch.randn(1024, 2688, generator=generator)
    targets = torch.randint(0, 1024, (64,), generator=generator)
    if form != "usual":
        hidden = hidden.abs()
    if form == "one":
        targets[:] = 5
        others = (weight @ hidden.t()).abs().max()
        weight[5] = -weight[5].abs()
        weight[5] *= others / (weight[5] @ hidden.t()).abs().max()
    elif form == "alike":
        weight = weight.abs()
    elif form == "apart":
        weight = weight.abs() * torch.tensor([1.0, -1.0]).repeat(512)[:, None]
        targets |= 1  # downward, while lse is of those that go upward
    weight *= largest / (hidden @ weight.t()).abs().max()
    return hidden.to(dtype), weight.to(dtype), targets


@both
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("largest", "contract", "bound"), [(30, "tc16", 5e-4), (5, "tc16", 5e-5), (30, "fma", 2e-4)]
)
def test_accuracy_of_the_head(largest, contract, bound, form, dtype):
    hidden, weight, targets = head_of(form, dtype, largest)
    exact = (hidden.double() @ weight.double().t()).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    error = (sb.linear_logp(hidden, weight, targets, contract=contract) - exact).abs().max().item()
    print(f"{dtype}, logits of {largest}, {contract}, {form}: {error:.2e}")
    # Of 22 bits of a product of fp16 a step cuts off more than of 16 bits of one of bf16; two drifts add up.
    cut = 2 if dtype == torch.float16 and form in ("one", "apart") and contract == "tc16" else 1
    assert error <= bound * cut * FORMS[form]


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32], ids=str)
@pytest.mark.parametrize("memory", ["save", "recompute"])
def test_the_gradient_of_the_targets_logit_is_right_however_confident(dtype, memory):
    worst = 0.0
    for above in range(-60, 96, 3):  # by so much, up to a few, is the target's logit the largest
        generator = torch.Generator().manual_seed(above + 60)
        hidden, weight = torch.randn(1, 16, generator=generator), torch.randn(1000, 16, generator=generator)
        hidden[0, 0], hidden[0, 1] = 1.0, above
        weight[:, 1] = 0.0
        weight[7, 1] = 1.0
        hidden, weight = hidden.to(dtype), weight.to(dtype).requires_grad_()
        logits = sb.linear(hidden, weight.detach(), out_dtype=torch.float32)[0].double()
        terms = (logits - logits.max()).exp()
        exact = (terms[:7].sum() + terms[8:].sum()) / terms.sum()
        # Of one token the gradient of the weight is that of the logit times hidden, here 1, and in an
        # accumulator it is not rounded to 16 bits.
        buffer = torch.zeros(weight.shape)
        sb.linear_logp(
            hidden, weight, torch.tensor([7]), memory=memory, grad_weight_accumulator=buffer
        ).sum().backward()
        worst = max(worst, abs(buffer[7, 0].item() - exact.item()))
    print(f"{dtype}: {worst:.2e}")
    assert worst <= 1e-6


@pytest.mark.parametrize("vocab", [1, 2, 31, 33, 127, 129, 1000, 32001, 50257])
@both
def test_a8_vocabulary_not_a_multiple_of_the_tile(dtype, vocab):
    hidden, weight = torch.zeros(2, 4, dtype=dtype), torch.zeros(vocab, 4, dtype=dtype)
    hidden[:, 0], weight[:, 0] = -20.0, 1.0
    values = sb.linear_logp(hidden, weight, torch.tensor([0, vocab - 1]))
    assert (values + math.log(vocab)).abs().max() <= 1e-6
    if vocab == 1:
        assert_same_bits(values, torch.zeros(2))


@pytest.mark.parametrize("depth", [1000, 1280])
def test_a14_row_zero_does_not_see_the_batch(depth):
    a, b = torch.randn(257, depth).bfloat16(), torch.randn(depth, 512).bfloat16()
    targets = torch.randint(0, 512, (257,))
    alone = sb.matmul(a[:1], b, out_dtype=torch.float32)
    value = sb.linear_logp(a[:1], b.t(), targets[:1])
    for rows in (1, 2, 3, 7, 16, 17, 32, 33, 64, 65, 255, 256, 257):
        assert_same_bits(sb.matmul(a[:rows], b, out_dtype=torch.float32)[:1], alone)
        assert_same_bits(sb.linear_logp(a[:rows], b.t(), targets[:rows])[:1], value)


def test_a15_every_micro_batch_split_has_policy_ratio_one():
    hidden, weight = torch.randn(64, 256).bfloat16(), torch.randn(1000, 256).bfloat16()
    targets = torch.randint(0, 1000, (64,))
    whole = sb.linear_logp(hidden, weight, targets)
    for size in (1, 4, 8):
        parts = [
            sb.linear_logp(hidden[i : i + size], weight, targets[i : i + size]) for i in range(0, 64, size)
        ]
        assert ((torch.cat(parts) - whole).exp() == 1.0).all()
    order = torch.randperm(64)
    assert ((sb.linear_logp(hidden[order], weight, targets[order]) - whole[order]).exp() == 1.0).all()


def test_a20_logits_are_not_rounded_to_16_bits():
    hidden, weight = torch.ones(2, 512).bfloat16(), torch.ones(2, 512).bfloat16()
    weight[1, 7] = 0
    values = sb.linear_logp(hidden, weight, torch.tensor([0, 1]))
    assert values.tolist() == pytest.approx([-0.3132617, -1.3132617], abs=2e-7)


def test_a21_fp16_does_not_overflow_in_the_head():
    hidden, weight = torch.full((2, 1024), 256.0).half(), torch.ones(2, 1024).half()
    weight[1, 0] = 255 / 256
    logits = sb.matmul(hidden, weight.t(), out_dtype=torch.float32)
    assert logits.tolist() == [[262144.0, 262143.0]] * 2
    values = sb.linear_logp(hidden, weight, torch.tensor([0, 1]))
    assert values.tolist() == pytest.approx([-0.3132617, -1.3132617], abs=2e-7)
