"""What broke other heads: the halves of field failures that test_field_failures.py holds for logits alone."""

import math

import pytest
import torch

import samebits as sb
from support import assert_same_bits

# Each logit of these heads is one element of the weight: hidden is [1, 0, ...].
LOGITS = torch.tensor([2.0, 1.0, 0.0])
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def head_of(logits, rows=1, dtype=torch.float32):
    """hidden, weight."""
    hidden, weight = torch.zeros(rows, 8), torch.zeros(len(logits), 8)
    hidden[:, 0], weight[:, 0] = 1.0, logits
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()


def gradients(hidden, weight, targets, **options):
    """Of the sum."""
    return torch.autograd.grad(sb.linear_logp(hidden, weight, targets, **options).sum(), (hidden, weight))


@every_dtype
@pytest.mark.parametrize("vocab", [1, 2, 129, 129920, 151936])
def test_a8_equal_logits_share_the_probability_and_one_column_has_no_gradient(dtype, vocab):
    hidden, weight = head_of(torch.full((vocab,), -20.0), dtype=dtype)
    values = sb.linear_logp(hidden, weight, torch.tensor([vocab - 1]))
    assert abs(values.item() + math.log(vocab)) <= 1e-6
    if vocab == 1:
        for gradient in gradients(hidden, weight, torch.tensor([0])):
            assert not gradient.any()


@every_dtype
def test_a9_operands_keep_their_bits_and_backward_runs_twice(dtype):
    raw = [torch.randn(shape).to(dtype).requires_grad_() for shape in ((7, 16), (11, 16))]
    hidden, weight = (leaf.tanh() for leaf in raw)
    before = hidden.detach().clone(), weight.detach().clone()
    values = sb.linear_logp(hidden, weight, torch.arange(7))
    first = torch.autograd.grad(values.sum(), raw, retain_graph=True)
    for again, once in zip(torch.autograd.grad(values.sum(), raw, retain_graph=True), first, strict=True):
        assert_same_bits(again, once)
    (values.sum() + hidden.float().square().mean() + weight.float().square().mean()).backward()
    for now, then in zip((hidden, weight), before, strict=True):
        assert_same_bits(now.detach(), then)


@every_dtype
@pytest.mark.parametrize("size", [1000, 1280])
def test_a14_the_gradient_of_a_row_does_not_see_the_batch(dtype, size):
    hidden, weight = torch.randn(257, size).to(dtype), (torch.randn(512, size) / 8).to(dtype)
    targets = torch.randint(0, 512, (257,))

    def row_zero(rows):
        part = hidden[:rows].clone().requires_grad_()
        return torch.autograd.grad(sb.linear_logp(part, weight, targets[:rows]).sum(), part)[0][0]

    alone = row_zero(1)
    for rows in (2, 3, 7, 16, 17, 32, 33, 64, 65, 255, 256, 257):
        assert_same_bits(row_zero(rows), alone, f"{rows} rows")


def test_a17_temperature_divides_the_logits_of_the_head():
    hidden, weight = head_of(LOGITS)
    target = torch.tensor([0])
    for temperature, expected in ((0.5, -0.1429316), (0.6, -0.2025731), (None, -0.4076060)):
        value = sb.linear_logp(hidden, weight, target, temperature=temperature)
        assert value.item() == pytest.approx(expected, abs=1e-7)
    to_target = gradients(hidden, weight, target, temperature=0.5)[1][0, 0]
    assert to_target.item() == pytest.approx(0.2663733, abs=1e-6)  # 1 / T is in it
    three = hidden.detach().expand(3, 8)
    per_row = sb.linear_logp(three, weight, target.expand(3), temperature=torch.tensor([0.5, 0.6, 1.0]))
    for row, temperature in enumerate((0.5, 0.6, None)):
        alone = sb.linear_logp(hidden, weight, target, temperature=temperature)
        assert_same_bits(per_row[row : row + 1].detach(), alone.detach())


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a18_impossible_temperatures_of_the_head(bad):
    hidden, weight = head_of(LOGITS, rows=3)
    targets = torch.tensor([0, 1, 2])
    with pytest.raises(ValueError, match=r"^temperature: is .*must be finite and within"):
        sb.linear_logp(hidden, weight, targets, temperature=bad)
    with pytest.raises(ValueError, match=r"^temperature: is .* at row 1"):
        sb.linear_logp(hidden, weight, targets, temperature=torch.tensor([1.0, bad, 1.0]))


def test_a21_gradients_of_fp16_stay_finite_where_logits_are_above_its_largest_number():
    hidden, weight = torch.full((2, 1024), 256.0).half(), torch.ones(2, 1024).half()
    weight[1, 0] = 255 / 256
    leaves = hidden.requires_grad_(), weight.requires_grad_()
    to_hidden, to_weight = gradients(*leaves, torch.tensor([0, 1]))
    assert to_hidden.isfinite().all() and to_weight.isfinite().all()
    p = 1 / (1 + math.e)  # of the second column
    # The first row wants more of column 0, the second more of column 1: 256 (p - (1 - p)) in sum. p, its
    # upstream and the result are rounded to 16 bits: 2^-11 each.
    expected = 256 * (p - (1 - p)) * torch.tensor([1.0, -1.0])
    assert ((to_weight.float() - expected[:, None]).abs() <= 3 * 2**-11 * 256).all()


@every_dtype
@pytest.mark.parametrize("scale", [1, 30, 300])
def test_a35_no_log_probability_of_a_head_is_above_zero(dtype, scale):
    hidden, weight = torch.randn(20_000, 16).to(dtype), torch.randn(24, 16)
    weight[5] *= 10  # far above the rest in half of the rows
    weight = (weight * scale / 4).to(dtype)
    logits = hidden.double() @ weight.double().t()
    targets = torch.where(torch.arange(20_000) % 2 == 0, logits.argmax(-1), torch.arange(20_000) % 24)
    values = sb.linear_logp(hidden, weight, targets)
    assert (values <= 0).all()
    reference = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    # One step of 16 products truncates 17 addends at 2^-25 of the largest and its result at 2^-23, a chain of
    # fma.v1 rounds 16 times at 2^-24: less than 8 times 2^-23 of what is summed, for the target and for lse.
    summed = (hidden.double().abs() @ weight.double().abs().t()).amax(-1)
    assert ((values - reference).abs() <= 1e-6 + reference.abs() * 2.0**-23 + 2 * 8 * 2.0**-23 * summed).all()


def test_a36_entropy_of_a_head_and_several_targets_a_token():
    hidden, weight = head_of(LOGITS)
    found = sb.linear_logp(hidden, weight, torch.tensor([0]), return_entropy=True)
    assert found.entropy.item() == pytest.approx(0.8323956, abs=1e-7)
    with pytest.raises(ValueError, match=r"^targets: has shape \[1, 3\]"):
        sb.linear_logp(hidden, weight, torch.tensor([[0, 1, 2]]))
    three = sb.linear_logp(hidden.unsqueeze(1).expand(1, 3, 8), weight, torch.tensor([[0, 1, 2]]))
    expected = torch.tensor([[-0.4076060, -1.4076060, -2.4076060]])
    assert torch.allclose(three, expected, rtol=0, atol=3e-7)
