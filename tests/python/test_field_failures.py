"""What broke others, one test each; the letter and number are those of the project's list of field
failures."""

import math

import pytest
import torch

import samebits as sb
from support import assert_same_bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("at", [0, 1023, 1024, 50000, 99999])
def test_a2_all_logits_but_one_are_masked(dtype, at):
    logits = torch.full((1, 100000), -torch.inf, dtype=dtype)
    logits[0, at] = 10.0
    logits.requires_grad_()
    values = sb.logp(logits, torch.tensor([at]), return_entropy=True)
    values.logp.backward()
    assert values.logp.item() == 0.0 and values.entropy.item() == 0.0
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("at", [0, 1023, 1024, 1999])
def test_a2_masked_through_the_bias_of_the_head(at):
    bias = torch.full((2000,), -torch.inf)
    bias[at] = 10.0
    value = sb.linear_logp(torch.randn(1, 8), torch.randn(2000, 8), torch.tensor([at]), bias=bias)
    assert value.item() == 0.0


@pytest.mark.parametrize("ignore_index", [-100, -1, 0, None])
def test_a3_negative_and_out_of_range_targets(ignore_index):
    logits = torch.randn(5, 8)
    targets = torch.tensor([3, -100, -1, 8, 2**32 + 3])
    leaf = logits.clone().requires_grad_()
    values = sb.logp(leaf, targets, ignore_index=ignore_index, return_lse=True, return_entropy=True)
    values.logp.sum().backward()
    assert_same_bits(values.logp[:1], sb.logp(logits[:1], targets[:1]))
    assert_same_bits(values.logp[1:], torch.zeros(4))
    assert_same_bits(values.lse[1:], torch.full((4,), -torch.inf))
    assert_same_bits(values.entropy[1:], torch.zeros(4))
    assert_same_bits(leaf.grad[1:], torch.zeros(4, 8))
    nan = sb.logp(logits, targets, ignore_index=ignore_index, on_invalid="nan")
    for row, target in enumerate(targets.tolist()):
        assert math.isnan(nan[row]) == (target not in (3, ignore_index))
    first = next(t for t in (-100, -1) if t != ignore_index)
    with pytest.raises(ValueError, match=rf"targets: has id {first} at row {1 if first == -100 else 2}"):
        sb.logp(logits, targets, ignore_index=ignore_index, on_invalid="raise")


def test_a3_ignore_index_inside_the_vocabulary():
    logits = torch.randn(2, 8, requires_grad=True)
    values = sb.logp(logits, torch.tensor([0, 0]), ignore_index=0)
    values.sum().backward()
    assert_same_bits(values, torch.zeros(2))
    assert_same_bits(logits.grad, torch.zeros(2, 8))


def test_a4_a_whole_micro_batch_ignored_still_has_gradients():
    hidden, weight = torch.randn(4, 8, requires_grad=True), torch.randn(16, 8, requires_grad=True)
    bias = torch.randn(16, requires_grad=True)
    values = sb.logp(torch.nn.functional.linear(hidden, weight, bias), torch.full((4,), -100))
    values.sum().backward()
    assert_same_bits(values, torch.zeros(4))
    for parameter in (hidden, weight, bias):
        assert parameter.grad is not None and (parameter.grad == 0).all()


def test_a5_empty_batches():
    for shape in ([0, 9], [2, 0, 9]):
        logits = torch.randn(shape, requires_grad=True)
        values = sb.logp(logits, torch.zeros(shape[:-1], dtype=torch.long), return_lse=True)
        assert list(values.logp.shape) == list(values.lse.shape) == shape[:-1]
        values.logp.sum().backward()
        assert list(logits.grad.shape) == shape
    assert sb.matmul(torch.empty(0, 3), torch.empty(3, 4)).shape == (0, 4)
    assert_same_bits(sb.matmul(torch.empty(2, 0), torch.empty(0, 4)), torch.zeros(2, 4))
    assert sb.matmul(torch.empty(2, 0, 3), torch.empty(3, 4)).shape == (2, 0, 4)
    empty = torch.zeros(0, dtype=torch.long)
    assert sb.linear_logp(torch.empty(0, 8), torch.randn(9, 8), empty).shape == (0,)
    logits = torch.randn(3, 9, requires_grad=True)
    values = sb.logp(logits, torch.tensor([0, 1, 2]), rows=empty)
    values.sum().backward()
    assert_same_bits(values, torch.zeros(3))
    assert (logits.grad == 0).all()


def test_a6_target_dtype_and_stride():
    logits, targets = torch.randn(16, 1000), torch.randint(0, 1000, (16,))
    expected = sb.logp(logits, targets)
    base = torch.stack([targets, targets.flip(0)], 1)
    for same in (targets.int(), base[:, 0], base.int()[:, ::2][:, 0], targets.flip(0).contiguous().flip(0)):
        assert_same_bits(sb.logp(logits, same), expected)
    one = torch.tensor(7)
    assert_same_bits(sb.logp(logits, one.expand(16)), sb.logp(logits, torch.full((16,), 7)))


def test_a7_non_contiguous_logits_hidden_and_weight():
    targets = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]])
    cases = {
        "transposed": (torch.randn(2, 4, 8).transpose(0, 1), targets),
        "padded rows": (torch.randn(4, 72)[:, :8], targets[:, 0]),
        "column-major": (torch.randn(8, 4).t(), targets[:, 0]),
        "expanded": (torch.randn(1, 8).expand(4, 8), targets[:, 0]),
    }
    for name, (logits, ids) in cases.items():
        results = []
        for copy in (logits, logits.contiguous()):
            leaf = copy.detach().requires_grad_()
            values = sb.logp(leaf, ids)
            results.append((values.detach(), *torch.autograd.grad(values.sum(), leaf)))
        for strided, dense in zip(*results, strict=True):
            assert_same_bits(strided.contiguous(), dense.contiguous(), name)
    hidden, weight = torch.randn(4, 9)[:, :8], torch.randn(8, 50)
    expected = sb.linear_logp(hidden.contiguous(), weight.t().contiguous(), targets[:, 0])
    assert_same_bits(sb.linear_logp(hidden, weight.t(), targets[:, 0]), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("leaf", [True, False])
def test_a9_the_logits_are_never_changed(dtype, leaf):
    raw = torch.randn(7, 11, dtype=dtype, requires_grad=True)
    logits = raw if leaf else raw.tanh()
    snapshot = logits.detach().clone()
    values = sb.logp(logits, torch.arange(7))
    first = torch.autograd.grad(values.sum(), raw, retain_graph=True)[0]
    assert_same_bits(torch.autograd.grad(values.sum(), raw, retain_graph=True)[0], first)
    (values.sum() + logits.square().mean()).backward()
    assert_same_bits(logits.detach(), snapshot)


def test_a15_every_micro_batch_split_has_policy_ratio_one():
    logits, targets = torch.randn(64, 1000).bfloat16(), torch.randint(0, 1000, (64,))
    whole = sb.logp(logits, targets)
    for size in (1, 4, 8):
        parts = [sb.logp(logits[i : i + size], targets[i : i + size]) for i in range(0, 64, size)]
        assert ((torch.cat(parts) - whole).exp() == 1.0).all()


def test_a16_thread_count_does_not_change_products():
    a, b, targets = torch.randn(1, 56), torch.randn(56, 444), torch.tensor([5])
    hidden = torch.randn(40, 56)
    results = []
    for threads in (1, 2, 6, 16):
        torch.set_num_threads(threads)
        many = sb.linear_logp(hidden, b.t(), targets.expand(40), return_lse=True)
        results.append((sb.matmul(a, b), sb.linear_logp(a, b.t(), targets), *many))
    for other in results[1:]:
        for value, expected in zip(other, results[0], strict=True):
            assert_same_bits(value, expected)


def test_a17_temperature_divides_the_logits_before_normalising():
    logits = torch.tensor([[2.0, 1.0, 0.0]], requires_grad=True)
    target = torch.tensor([0])
    value = sb.logp(logits, target, temperature=0.5)
    value.backward()
    assert value.item() == pytest.approx(-0.1429316, abs=1e-7)
    assert logits.grad[0, 0].item() == pytest.approx(0.2663733, abs=1e-6)
    assert sb.logp(logits, target, temperature=0.6).item() == pytest.approx(-0.2025731, abs=1e-7)
    assert sb.logp(logits, target).item() == pytest.approx(-0.4076060, abs=1e-7)
    three = logits.detach().expand(3, 3)
    per_row = sb.logp(three, target.expand(3), temperature=torch.tensor([0.5, 0.6, 1.0]))
    for row, temperature in enumerate((0.5, 0.6, None)):
        assert_same_bits(per_row[row : row + 1], sb.logp(logits.detach(), target, temperature=temperature))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a18_impossible_temperatures(bad):
    logits, targets = torch.randn(3, 5), torch.tensor([0, 1, 2])
    with pytest.raises(ValueError, match=r"^temperature: is .*must be finite and within"):
        sb.logp(logits, targets, temperature=bad)
    with pytest.raises(ValueError, match=r"^temperature: is .* at row 1"):
        sb.logp(logits, targets, temperature=torch.tensor([1.0, bad, 1.0]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a19_low_precision_logits_give_float32(dtype):
    logits, targets = torch.zeros(1, 131072, dtype=dtype), torch.tensor([7])
    for out in (None, torch.empty(1)):
        value = sb.logp(logits, targets, out=out)
        assert value.dtype == torch.float32
        assert value.item() == pytest.approx(-11.7835021, abs=1e-6)
    for value in sb.logp(logits, targets, return_lse=True, return_entropy=True):
        assert value.dtype == torch.float32
        assert abs(value.item()) == pytest.approx(11.7835021, abs=1e-6)


@pytest.mark.parametrize("vocab", [1, 2, 31, 33, 127, 129, 1000, 32001, 50257])
def test_a8_vocabulary_not_a_multiple_of_the_tile(vocab):
    hidden, weight = torch.zeros(2, 4), torch.zeros(vocab, 4)
    hidden[:, 0], weight[:, 0] = -20.0, 1.0
    values = sb.linear_logp(hidden, weight, torch.tensor([0, vocab - 1]))
    assert (values + math.log(vocab)).abs().max() <= 1e-6
    if vocab == 1:
        assert_same_bits(values, torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("scale", [1, 30, 300])
def test_a35_no_log_probability_is_above_zero(dtype, scale):
    logits = (torch.randn(100_000, 24) * scale).to(dtype)
    logits[::10, 5] = logits[::10].float().amax(-1).to(dtype) + 100
    targets = torch.where(
        torch.arange(100_000) % 2 == 0, logits.float().argmax(-1), torch.arange(100_000) % 24
    )
    values = sb.logp(logits, targets)
    assert (values <= 0).all()
    reference = logits.double().log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    assert ((values - reference).abs() <= 2e-7 * 3 + reference.abs() * 2.0**-23).all()


def test_a36_entropy_and_shapes_of_several_targets():
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    entropy = sb.logp(logits, torch.tensor([0]), return_entropy=True).entropy
    assert entropy.item() == pytest.approx(0.8323956, abs=1e-7)
    with pytest.raises(ValueError, match=r"^targets: has shape \[1, 3\]"):
        sb.logp(logits, torch.tensor([[0, 1, 2]]))
    three = sb.logp(logits.unsqueeze(1).expand(1, 3, 3), torch.tensor([[0, 1, 2]]))
    assert torch.allclose(three, torch.tensor([[-0.4076060, -1.4076060, -2.4076060]]), rtol=0, atol=3e-7)
