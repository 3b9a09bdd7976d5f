"""matmul, linear and linear_logp from Python: bits of a row, equality with the unfused product, accuracy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samebits as sb
from support import assert_same_bits


@given(st.integers(1, 9), st.integers(0, 40), st.integers(1, 60), st.integers(0, 999), st.data())
def test_rows_of_a_product_do_not_see_each_other(rows, depth, columns, seed, data):
    generator = torch.Generator().manual_seed(seed)
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    a = torch.randn(rows, depth, generator=generator, dtype=dtype)
    b = torch.randn(depth, columns, generator=generator, dtype=dtype)
    whole = sb.matmul(a, b)
    row = data.draw(st.integers(0, rows - 1))
    assert_same_bits(sb.matmul(a[row : row + 1], b), whole[row : row + 1])
    strided = sb.matmul(a.t().contiguous().t(), b.t().contiguous().t())
    assert_same_bits(strided, whole)
    error = (whole.double() - a.double() @ b.double()).abs()
    size = a.double().abs() @ b.double().abs()
    assert (error <= (depth + 1) * (2.0**-24 if dtype == torch.float32 else 2.0**-52) * size).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_operands_run_by_name_and_equal_their_float32_product(dtype):
    a, b = torch.randn(5, 70).to(dtype), torch.randn(70, 33).to(dtype)
    wide = sb.matmul(a.float(), b.float())
    assert_same_bits(sb.matmul(a, b, contract="fma", out_dtype=torch.float32), wide)
    assert_same_bits(sb.matmul(a, b, contract="fma"), wide.to(dtype))


def test_leading_axes_are_rows():
    a, b = torch.randn(2, 3, 4, 8), torch.randn(8, 5)
    assert_same_bits(sb.matmul(a, b), sb.matmul(a.view(-1, 8), b).view(2, 3, 4, 5))
    assert_same_bits(sb.linear(a, b.t()), sb.matmul(a, b))
    assert_same_bits(sb.linear(a[0, 0, 0], b.t()), sb.matmul(a, b)[0, 0, 0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_bias_sees_no_switch_of_the_process(dtype):
    tiny = torch.finfo(dtype).tiny / 8
    x, weight, bias = torch.zeros(2, 3, dtype=dtype), torch.ones(4, 3, dtype=dtype), torch.full((4,), tiny)
    bias = bias.to(dtype)
    before = sb.linear(x, weight, bias)
    torch.set_flush_denormal(True)
    try:
        flushed = sb.linear(x, weight, bias)
    finally:
        torch.set_flush_denormal(False)
    assert_same_bits(before, bias.expand(2, 4).clone())
    assert_same_bits(flushed, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_a_nan_of_the_bias_has_the_one_pattern(dtype):
    one = torch.ones(1, 1, dtype=dtype)
    product = sb.matmul(one * torch.nan, one, contract="fma")
    for nan in (torch.nan, -torch.nan):
        assert_same_bits(sb.linear(one, one, one[0] * nan, contract="fma"), product)
    assert_same_bits(sb.linear(one, one * torch.inf, one[0] * -torch.inf, contract="fma"), product)


def test_the_bias_is_added_before_the_only_rounding():
    x, weight, bias = torch.randn(6, 40), torch.randn(9, 40), torch.randn(9)
    assert_same_bits(sb.linear(x, weight, bias), sb.matmul(x, weight.t()) + bias)
    half = [value.bfloat16() for value in (x, weight, bias)]
    wide = sb.matmul(half[0], half[1].t(), contract="fma", out_dtype=torch.float32) + half[2].float()
    assert_same_bits(sb.linear(*half, contract="fma"), wide.bfloat16())
    assert_same_bits(sb.linear(*half, contract="fma", out_dtype=torch.float32), wide)


@given(st.integers(1, 7), st.sampled_from([1, 2, 33, 127, 128, 129, 300]), st.integers(0, 999), st.data())
def test_the_fused_head_equals_the_unfused_one(rows, vocab, seed, data):
    generator = torch.Generator().manual_seed(seed)
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    hidden = torch.randn(rows, 24, generator=generator, dtype=dtype)
    weight = torch.randn(vocab, 24, generator=generator, dtype=dtype)
    bias = torch.randn(vocab, generator=generator, dtype=dtype) if data.draw(st.booleans()) else None
    targets = torch.randint(-1, vocab + 1, (rows,), generator=generator)
    options = {
        "return_lse": True,
        "return_entropy": True,
        "on_invalid": data.draw(st.sampled_from(["zero", "nan"])),
    }
    if data.draw(st.booleans()):
        options["temperature"] = torch.rand(rows, generator=generator) + 0.5
    if data.draw(st.booleans()):
        options["rows"] = torch.randint(-1, rows + 1, (3,), generator=generator)
    if data.draw(st.booleans()):
        options["vocab_size"] = data.draw(st.integers(1, vocab))
    fused = sb.linear_logp(hidden, weight, targets, bias=bias, **options)
    unfused = sb.logp(sb.linear(hidden, weight, bias), targets, **options)
    for one, other, name in zip(fused, unfused, ("logp", "lse", "entropy"), strict=True):
        assert_same_bits(one, other, name)


def test_the_head_writes_into_a_buffer():
    hidden, weight, targets = torch.randn(4, 8), torch.randn(30, 8), torch.tensor([0, 1, 2, 29])
    expected = sb.linear_logp(hidden, weight, targets)
    out = torch.full((4,), 7.0)
    assert sb.linear_logp(hidden, weight, targets, out=out, rows=torch.tensor([1, 3])) is out
    assert_same_bits(out, torch.stack([torch.tensor(7.0), expected[1], torch.tensor(7.0), expected[3]]))
    with pytest.raises(ValueError, match=r"^out: shares storage with weight"):
        sb.linear_logp(hidden, weight, targets, out=weight.view(-1)[:4])
    bias = torch.zeros(30)
    with pytest.raises(ValueError, match=r"^out: shares storage with bias"):
        sb.linear_logp(hidden, weight, targets, bias=bias, out=bias[:4])
    for leaf in (hidden, hidden.detach().requires_grad_()):
        with pytest.raises(ValueError, match=r"^out: shares storage with hidden"):
            sb.linear_logp(leaf, weight, targets, out=leaf.detach()[:, 0])
