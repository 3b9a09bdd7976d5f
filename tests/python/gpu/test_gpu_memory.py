"""memory= of linear_logp on the GPU: what is kept changes no bit, and is no more than allowed."""

import pytest
import torch

import samebits as sb
from samebits import _memory
from support import assert_same_bits

GPU = "cuda:0"
KEEPS = torch.cuda.get_device_capability() in _memory.KEEPING


def operands(rows, vocab, size, seed=0):
    """hidden, weight, targets; about one row in eight takes no part."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, size, generator=generator).bfloat16().to(GPU).requires_grad_()
    weight = (torch.randn(vocab, size, generator=generator) / 4).bfloat16().to(GPU).requires_grad_()
    targets = torch.randint(-vocab // 8, vocab, (rows,), generator=generator).to(GPU)
    return hidden, weight, targets


def gradients(hidden, weight, targets, **options):
    upstream = torch.linspace(-2, 3, targets.numel(), device=GPU)
    return torch.autograd.grad(sb.linear_logp(hidden, weight, targets, **options), (hidden, weight), upstream)


@pytest.mark.parametrize("vocab", [70, 1000, 32064])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.7},
        {"vocab_size": 65},
        {"rows": torch.tensor([5, 299, 0, 5, 77])},
        {"ignore_index": 3, "on_invalid": "nan"},
        {"contract": "fma"},
    ],
    ids=lambda options: next(iter(options), "plain"),
)
def test_no_budget_changes_a_bit(vocab, options):
    options = {k: v.to(GPU) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    call = operands(300, vocab, 72)
    row = 2 * ((options.get("vocab_size", vocab) + 63) // 64 * 64)
    expected = gradients(*call, memory="recompute", **options)
    for memory in (0, row - 1, row, 7 * row, 150 * row, 300 * row, "save", "auto"):
        for actual, wanted in zip(gradients(*call, memory=memory, **options), expected, strict=True):
            assert_same_bits(actual, wanted, f"memory={memory}, {list(actual.shape)}")


def test_a_row_far_below_its_maximum_is_the_same_kept_or_not():
    hidden, weight, targets = operands(64, 1000, 64)
    with torch.no_grad():
        weight[::2] *= 60  # logits of hundreds: targets more than 60 below the maximum, and confident ones
    expected = gradients(hidden, weight, targets, memory="recompute")
    for actual, wanted in zip(gradients(hidden, weight, targets, memory="save"), expected, strict=True):
        assert_same_bits(actual, wanted)


def test_a_second_backward_finds_what_was_kept():
    hidden, weight, targets = operands(64, 1000, 64)
    values = sb.linear_logp(hidden, weight, targets, memory="save").sum()
    first = torch.autograd.grad(values, (hidden, weight), retain_graph=True)
    for again, expected in zip(torch.autograd.grad(values, (hidden, weight)), first, strict=True):
        assert_same_bits(again, expected)


def test_an_accumulator_takes_what_was_kept():
    hidden, weight, targets = operands(300, 1000, 72)
    buffers = {}
    for memory in ("recompute", "save", 100 * 2048):
        buffers[memory] = torch.zeros(weight.shape, device=GPU)
        options = {"memory": memory, "grad_weight_accumulator": buffers[memory]}
        sb.linear_logp(hidden, weight, targets, **options).sum().backward()
        assert_same_bits(buffers[memory], buffers["recompute"], f"memory={memory}")


def test_a25_no_more_is_kept_than_allowed():
    hidden, weight, targets = operands(512, 32064, 64)
    operand_bytes = sum(t.numel() * t.element_size() for t in (hidden, weight, targets))

    def kept(memory):
        sizes = {}

        def pack(tensor):
            sizes[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            sb.linear_logp(hidden, weight, targets, memory=memory)
        return sum(sizes.values()) - operand_bytes

    vectors = 64 * 512  # a few numbers a row
    row = 2 * 32064
    assert kept("recompute") <= vectors and kept(0) <= vectors
    assert kept(300 * row) <= 256 * row + vectors and kept("save") <= 512 * row + vectors  # whole tiles
    if KEEPS:
        assert kept("save") >= 512 * row and kept(300 * row) >= 256 * row


def test_the_compiler_knows_the_shape_of_what_is_kept():
    hidden, weight, targets = operands(96, 1000, 64)
    compiled = torch.compile(lambda h, w, t: sb.linear_logp(h, w, t, memory="save"), fullgraph=True)
    values = compiled(hidden, weight, targets)
    assert_same_bits(values.detach(), sb.linear_logp(hidden, weight, targets).detach())
    expected = gradients(hidden, weight, targets)
    upstream = torch.linspace(-2, 3, 96, device=GPU)
    for actual, wanted in zip(torch.autograd.grad(values, (hidden, weight), upstream), expected, strict=True):
        assert_same_bits(actual, wanted)


def test_budgets_on_the_gpu_are_those_of_the_device():
    hidden, weight, _ = operands(4, 1000, 64)
    allowed = _memory.saved_rows("save", hidden, weight, "auto", False, None)
    assert allowed == (_memory.EVERY_ROW if KEEPS else 0)


def test_what_finds_no_memory_is_named():
    wide = torch.zeros(1, 1, device=GPU).expand(1 << 24, 1)
    with pytest.raises(RuntimeError) as caught:
        sb.matmul(wide, wide.t())
    assert str(caught.value) == (
        "samebits: a tensor of shape [16777216, 16777216] and dtype float32, 1125899906842624 bytes, "
        f"cannot be allocated on {GPU}"
    )
