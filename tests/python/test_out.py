"""out=: identity, refusals, and the buffer's place in autograd."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits


@pytest.fixture
def call():
    """(logits that require grad, targets)."""
    return torch.randn(4, 50, requires_grad=True), torch.tensor([1, 2, 3, 49])


def test_the_buffer_itself_is_returned_and_keeps_its_storage(call):
    logits, targets = call
    out = torch.empty(4)
    address = out.data_ptr()
    assert sb.logp(logits, targets, out=out) is out
    assert out.data_ptr() == address
    assert_same_bits(out, sb.logp(logits, targets))
    values = sb.logp(logits.detach(), targets, out=out.detach(), return_lse=True)
    assert values.logp.data_ptr() == address


def test_gradients_flow_through_the_buffer(call):
    logits, targets = call
    (expected,) = torch.autograd.grad(sb.logp(logits, targets).sum(), logits)
    out = sb.logp(logits, targets, out=torch.empty(4))
    (actual,) = torch.autograd.grad(out.sum(), logits)
    assert_same_bits(actual, expected)


def test_rows_not_listed_keep_their_values_and_have_no_gradient(call):
    logits, targets = call
    out = torch.full((4,), 7.0)
    sb.logp(logits, targets, out=out, rows=torch.tensor([2, 0, 2, 9, -1]))
    full = sb.logp(logits, targets)
    assert_same_bits(out, torch.stack([full[0], torch.tensor(7.0), full[2], torch.tensor(7.0)]))
    out.sum().backward()
    assert (logits.grad[[1, 3]] == 0).all() and (logits.grad[[0, 2]] != 0).any(-1).all()


def test_strided_buffers_are_written_in_place(call):
    logits, targets = call
    wide = torch.full((4, 3), 7.0)
    sb.logp(logits.detach(), targets, out=wide[:, 1])
    assert_same_bits(wide[:, 1].contiguous(), sb.logp(logits.detach(), targets))
    assert (wide[:, [0, 2]] == 7).all()


def test_reuse_after_a_recorded_call_needs_detach_and_says_so(call):
    logits, targets = call
    out = sb.logp(logits, targets, out=torch.empty(4))
    out.sum().backward()
    with pytest.raises(ValueError, match=r"^out: already requires grad; .*out\.detach\(\)"):
        sb.logp(logits, targets, out=out)
    again = sb.logp(logits, targets, out=out.detach())
    assert again.data_ptr() == out.data_ptr()


def test_a_buffer_that_requires_grad_is_refused_even_without_recording(call):
    logits, targets = call
    with torch.no_grad(), pytest.raises(ValueError, match=r"^out: already requires grad"):
        sb.logp(logits, targets, out=torch.empty(4, requires_grad=True))


@pytest.mark.parametrize("recording", [True, False])
def test_a_buffer_that_shares_storage_with_an_input_is_refused(recording):
    memory = torch.randn(5, 8)
    logits, targets = memory[:4], torch.tensor([1, 2, 3, 4])
    if recording:
        logits = logits.detach().requires_grad_()
    before = memory.clone()
    with pytest.raises(ValueError, match=r"^out: shares storage with logits"):
        sb.logp(logits, targets, out=memory[4, :4])  # disjoint elements, one storage
    temperature = torch.ones(4)
    with pytest.raises(ValueError, match=r"^out: shares storage with temperature"):
        sb.logp(logits, targets, temperature=temperature, out=temperature)
    assert_same_bits(memory, before)


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        (torch.empty(4, dtype=torch.float64), TypeError, "^out: is float64; must be float32"),
        (torch.empty(4, dtype=torch.bfloat16), TypeError, "^out: is bfloat16; must be float32"),
        (torch.empty(5), ValueError, r"^out: has shape \[5\] .*must be \[4\]"),
        ([0.0] * 4, TypeError, "^out: is a list; must be a torch.Tensor"),
        (torch.zeros(1).expand(4), ValueError, r"^out: has shape \[4\] and strides \[0\]"),
        (torch._neg_view(torch.zeros(4)), ValueError, "^out: is a view that negates its memory"),
    ],
    ids=["wider", "narrower", "longer", "list", "expanded", "negated"],
)
@pytest.mark.parametrize("recording", [False, True])
def test_a_buffer_of_the_wrong_kind_is_refused(call, out, error, message, recording):
    with pytest.raises(error, match=message):
        sb.logp(call[0] if recording else call[0].detach(), call[1], out=out)


@pytest.mark.parametrize("options", [{}, {"return_lse": True}, {"return_entropy": True}], ids=str)
def test_a_buffer_whose_memory_is_an_inputs_by_another_storage_is_refused(options):
    logits, targets = torch.randn(4, 10), torch.arange(4)
    hidden, weight = torch.randn(4, 6), torch.randn(10, 6)
    before = [t.clone() for t in (logits, targets, weight)]
    with pytest.raises(ValueError, match=r"^out: shares memory with logits; must be memory of its own"):
        sb.logp(logits, targets, out=torch.from_dlpack(logits)[0, :4], **options)
    with pytest.raises(ValueError, match=r"^out: shares memory with targets"):
        sb.logp(logits, targets, out=torch.from_numpy(targets.numpy().view("float32")[:4]), **options)
    with pytest.raises(ValueError, match=r"^out: shares memory with weight"):
        sb.linear_logp(hidden, weight, targets, out=torch.from_dlpack(weight)[0, :4], **options)
    for value, expected in zip((logits, targets, weight), before, strict=True):
        assert torch.equal(value, expected)
    apart = torch.empty(8)
    same = torch.from_dlpack(apart)  # one after the other, no byte in common
    sb.logp(apart[:4].view(1, 4), targets[:1], out=same[4:5], **options)


def test_a_buffer_whose_elements_coincide_is_refused():
    memory = torch.full((10,), torch.nan)
    windows = memory.as_strided((2, 3), (1, 1))
    with pytest.raises(ValueError, match=r"^out: has shape \[2, 3\] and strides \[1, 1\]"):
        sb.logp(torch.randn(2, 3, 9), torch.zeros(2, 3, dtype=torch.long), out=windows)
    assert memory.isnan().all()


def test_nothing_is_written_when_the_call_is_refused(call):
    logits, targets = call
    out = torch.full((4,), 7.0)
    for options in ({"temperature": 0.0}, {"vocab_size": 51}, {"backend": "abacus"}):
        with pytest.raises(ValueError):
            sb.logp(logits.detach(), targets, out=out, **options)
    with pytest.raises(ValueError, match=r"^targets: has id 50 at row 3"):
        sb.logp(logits.detach(), torch.tensor([1, 2, 3, 50]), out=out, on_invalid="raise")
    assert (out == 7).all()


def test_a_write_is_seen_by_the_version_counter(call):
    logits, targets = call
    out = torch.ones(4)
    weight = torch.ones(4, requires_grad=True)
    product = (out * weight).sum()
    sb.logp(logits.detach(), targets, out=out)
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation"):
        product.backward()


def test_derivatives_of_every_order_flow_through_the_buffer(call):
    logits, targets = call
    direction = torch.randn(4, 50)

    def through_buffer(x):
        return sb.logp(x, targets, out=torch.empty(4)).sum()

    def plain(x):
        return sb.logp(x, targets).sum()

    leaf = logits.detach()
    for of in (
        torch.func.grad,
        lambda f: lambda x: torch.func.jvp(f, (x,), (direction,))[1],
        lambda f: lambda x: torch.func.jvp(torch.func.grad(f), (x,), (direction,))[1],
        lambda f: lambda x: torch.func.vjp(torch.func.grad(f), x)[1](direction)[0],
    ):
        assert_same_bits(of(through_buffer)(leaf), of(plain)(leaf))
    (first,) = torch.autograd.grad(through_buffer(logits), logits, create_graph=True)
    (second,) = torch.autograd.grad((first * direction).sum(), logits)
    assert_same_bits(second, torch.func.jvp(torch.func.grad(plain), (leaf,), (direction,))[1])


def test_buffers_under_vmap_are_made_inside_or_mapped(call):
    logits, targets = torch.randn(3, 4, 50), torch.randint(0, 50, (3, 4))
    expected = sb.logp(logits, targets)

    def own(x, t):
        return sb.logp(x, t, out=torch.empty_like(x[..., 0]))

    assert_same_bits(torch.func.vmap(own)(logits, targets), expected)
    buffers = torch.full((3, 4), 7.0)
    rows = torch.tensor([0, 3])
    torch.func.vmap(lambda x, t, o: sb.logp(x, t, out=o, rows=rows))(logits, targets, buffers)
    assert_same_bits(buffers[:, [0, 3]], expected[:, [0, 3]])
    assert (buffers[:, [1, 2]] == 7).all()


def test_buffers_from_outside_a_transform_are_refused(call):
    leaf, targets = call[0].detach(), call[1]
    captured = torch.full((4,), 7.0)
    with pytest.raises(ValueError, match=r"^out: was made outside the transform"):
        torch.func.grad(lambda x: sb.logp(x, targets, out=captured).sum())(leaf)
    with pytest.raises(ValueError, match=r"^out: was made outside the transform"):
        torch.func.jvp(lambda x: sb.logp(x, targets, out=captured), (leaf,), (leaf,))
    with pytest.raises(ValueError, match=r"^out: is one buffer for all samples of a vmap"):
        torch.func.vmap(lambda x: sb.logp(x, targets, out=captured))(leaf.repeat(3, 1, 1))
    with pytest.raises(ValueError, match=r"^out: is one buffer for all samples of a vmap"):
        torch.func.vmap(lambda t: sb.logp(leaf, t, out=captured))(targets.repeat(3, 1))
    with pytest.raises(ValueError, match=r"^out: shares storage with logits"):
        torch.func.vmap(lambda x: sb.logp(x, targets, out=x[:, 0]))(leaf.repeat(3, 1, 1))
    assert (captured == 7).all()


def test_an_inference_tensor_is_refused_outside_inference_mode(call):
    logits, targets = call
    with torch.inference_mode():
        buffer = torch.full((4,), 7.0)
        sb.logp(logits.detach(), targets, out=torch.empty(4))
    for recorded in (logits, logits.detach()):
        with pytest.raises(ValueError, match=r"^out: was made in inference mode"):
            sb.logp(recorded, targets, out=buffer)
    assert (buffer == 7).all()
