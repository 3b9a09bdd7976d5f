"""Buffers that backward adds a gradient to: those that changed since the call, and passes for others."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits

IDS = torch.tensor([0, 3, 3, 6])
NEW_MEMORY = [
    (lambda: torch.zeros(6, 8), ValueError, r"has shape \[6, 8\]; must be \[7, 8\], that of weight"),
    (lambda: torch.zeros(7, 8).double(), TypeError, "is float64; must be float32"),
    (
        lambda: torch.zeros(1, 8).expand(7, 8),
        ValueError,
        r"has shape \[7, 8\] and strides \[0, 1\], so elements",
    ),
    (lambda: torch.zeros(8, 7).t(), ValueError, "has stride 7 along the last axis; must have stride 1 there"),
]


def head(buffer, **options):
    """(log-probabilities, hidden, weight) of a call that adds to the buffer."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(4, 8, generator=generator).requires_grad_()
    weight = torch.randn(7, 8, generator=generator).requires_grad_()
    return sb.linear_logp(hidden, weight, IDS, grad_weight_accumulator=buffer, **options), hidden, weight


def lookup(buffer):
    """The same of embedding."""
    weight = torch.randn(7, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    return sb.embedding(IDS, weight, grad_accumulator=buffer), weight


@pytest.mark.parametrize(("memory", "error", "message"), NEW_MEMORY)
@pytest.mark.parametrize(
    ("call", "argument"), [(head, "grad_weight_accumulator"), (lookup, "grad_accumulator")]
)
def test_a_buffer_with_other_memory_than_at_the_call_is_named(call, argument, memory, error, message):
    buffer = torch.zeros(7, 8)
    results, *leaves = call(buffer)
    buffer.data = memory()
    with pytest.raises(error, match=f"^{argument}: {message}"):
        results.sum().backward()
    assert not buffer.any() and all(leaf.grad is None for leaf in leaves)


@pytest.mark.parametrize(("memory", "error", "message"), NEW_MEMORY)
@pytest.mark.parametrize(
    ("call", "argument"), [(head, "grad_weight_accumulator"), (lookup, "grad_accumulator")]
)
def test_memory_that_backward_refuses_is_refused_at_the_call_in_the_same_words(
    call, argument, memory, error, message
):
    with pytest.raises(error, match=f"^{argument}: {message}"):
        call(memory())


@pytest.mark.parametrize("other", ["hidden", "targets", "bias", "temperature", "rows", "weight"])
def test_a_buffer_in_the_memory_of_an_input_is_refused_at_the_call(other):
    memory = torch.zeros(112)
    buffer, inside = memory[:56].view(7, 8), memory[20:]
    inputs = {
        "hidden": inside[:32].view(4, 8),
        "targets": inside[:8].view(torch.int64),
        "bias": inside[:7],
        "temperature": inside[:4],
        "rows": inside[:4].view(torch.int32),
        "weight": inside[:56].view(7, 8).requires_grad_(),
    }
    call = {
        "hidden": torch.zeros(4, 8), "weight": torch.zeros(7, 8).requires_grad_(), "targets": IDS,
        other: inputs[other],
    }  # fmt: skip
    with pytest.raises(ValueError) as caught:
        sb.linear_logp(**call, grad_weight_accumulator=buffer)
    assert (
        str(caught.value) == f"grad_weight_accumulator: shares memory with {other}; must be memory of its own"
    )


def test_ids_in_the_memory_of_a_buffer_are_refused_at_the_call():
    buffer = torch.zeros(7, 8)
    ids = buffer.view(-1)[:8].view(torch.int64)
    with pytest.raises(ValueError, match=r"^grad_accumulator: shares memory with ids; must be"):
        sb.embedding(ids, torch.zeros(7, 8, requires_grad=True), grad_accumulator=buffer)


def test_results_in_the_memory_of_a_buffer_are_refused_before_they_are_written():
    buffer = torch.zeros(7, 8)
    with pytest.raises(ValueError, match=r"^out: shares (storage|memory) with grad_weight_accumulator; must"):
        head(buffer, out=buffer.view(-1)[:4])
    assert not buffer.any()


def test_a_buffer_with_strided_rows_is_used():
    expected, wide = torch.zeros(7, 8), torch.zeros(7, 11)
    head(expected)[0].sum().backward()
    head(wide[:, :8])[0].sum().backward()
    assert_same_bits(wide[:, :8], expected)
    assert not wide[:, 8:].any()


def test_a_buffer_that_became_the_weight_is_named():
    buffer = torch.zeros(7, 8)
    results, _, weight = head(buffer)
    before = weight.detach().clone()
    buffer.data = weight.data
    with pytest.raises(ValueError, match=r"^grad_weight_accumulator: shares memory with weight"):
        results.sum().backward()
    assert_same_bits(weight.detach(), before)


def test_a_buffer_with_new_memory_of_its_kind_is_used():
    expected, buffer = torch.zeros(7, 8), torch.zeros(7, 8)
    head(expected)[0].sum().backward()
    results = head(buffer)[0]
    old = buffer.data
    buffer.data = torch.zeros(7, 8)
    results.sum().backward()
    assert_same_bits(buffer, expected)
    assert not old.any()


def test_a_pass_for_other_gradients_leaves_the_buffer_alone():
    buffer, expected = torch.zeros(7, 8), torch.zeros(7, 8)
    results, hidden, _ = head(buffer)
    (gradient,) = torch.autograd.grad(results.sum(), hidden, retain_graph=True)
    assert not buffer.any()
    results.sum().backward(inputs=[hidden], retain_graph=True)
    assert not buffer.any()
    assert_same_bits(hidden.grad, gradient)
    results.sum().backward()
    head(expected)[0].sum().backward()
    assert buffer.any()
    assert_same_bits(buffer, expected)


def test_a_pass_that_asks_for_the_weight_fills_the_buffer():
    for wanted in ((1,), (0, 1)):
        buffer, expected = torch.zeros(7, 8), torch.zeros(7, 8)
        head(expected)[0].sum().backward()
        results, *leaves = head(buffer)
        asked = [leaves[i] for i in wanted]
        torch.autograd.grad(results.sum(), asked, allow_unused=True)
        assert_same_bits(buffer, expected)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    ("call", "argument"), [(head, "grad_weight_accumulator"), (lookup, "grad_accumulator")]
)
def test_compiled_code_leaves_the_call_to_eager_mode(call, argument, backend):
    function = sb.linear_logp if call is head else sb.embedding
    buffers, others = [torch.ones(7, 8), torch.ones(7, 8)], []

    def loss(operands, buffer):
        return (function(*operands, **{argument: buffer}) * 2).sum()

    torch._dynamo.reset()
    for each, buffer in zip((loss, torch.compile(loss, backend=backend)), buffers, strict=True):
        _, *leaves = call(buffer)
        operands = (leaves[0], leaves[1], IDS) if call is head else (IDS, leaves[0])
        each(operands, buffer).backward()
        others.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    assert_same_bits(buffers[1], buffers[0])
    assert (buffers[0] != 1).any() and len(others[0]) == len(others[1]) == (call is head)
    for compiled, eager in zip(*others, strict=True):
        assert_same_bits(compiled, eager)
    torch._dynamo.reset()
    whole = torch.compile(loss, backend=backend, fullgraph=True)
    with pytest.raises(RuntimeError, match="grad_accumulator: a buffer that backward writes is not traced"):
        whole(operands, buffers[1])
    torch._dynamo.reset()
