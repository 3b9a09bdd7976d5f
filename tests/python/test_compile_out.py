"""out= in compiled code: what eager mode refuses is refused, under every backend, and nothing is written."""

import warnings

import pytest
import torch

import samebits as sb
from support import assert_same_bits

TARGETS = torch.arange(4)
CALLS = {
    "logp": ("logits", lambda x, out: sb.logp(x, TARGETS, out=out)),
    "logp_lse": ("logits", lambda x, out: sb.logp(x, TARGETS, out=out, return_lse=True).logp),
    "linear_logp": ("hidden", lambda x, out: sb.linear_logp(x, torch.ones(5, 6), TARGETS, out=out)),
}  # fmt: skip
BACKENDS = ("eager", "aot_eager", "inductor")


@pytest.fixture(autouse=True)
def fresh_compiler():
    """No compiled code of another test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(params=[False, True], ids=["plain", "recorded"])
def x(request):
    return torch.randn(4, 6, requires_grad=request.param)


@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize("name", CALLS)
def test_a_view_of_an_input_is_refused_by_the_name_out(name, backend, x):
    operand, call = CALLS[name]
    compiled = torch.compile(call, backend=backend)
    before = x.detach().clone()
    with pytest.raises(ValueError, match=rf"^out: shares storage with {operand}; must be memory of its own"):
        compiled(x, x.detach()[:, 0])
    assert_same_bits(x.detach(), before)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CALLS)
def test_code_compiled_for_memory_apart_asks_for_the_memory_of_each_call(name, backend, x):
    operand, call = CALLS[name]
    compiled = torch.compile(call, backend=backend)
    before = x.detach().clone()
    out = compiled(x, torch.empty(4, 6)[:, 0])
    assert_same_bits(out, call(x, torch.empty(4)))
    for buffer, kind in (
        (x.detach()[:, 0], "storage"),
        (torch.from_dlpack(x.detach())[:, 0], "memory"),
    ):
        with pytest.raises(ValueError, match=rf"^out: shares {kind} with {operand}"):
            compiled(x, buffer)
    assert_same_bits(x.detach(), before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_of_what_the_compiled_code_made_is_refused(backend):
    def call(x):
        y = x * 2
        return sb.logp(y, TARGETS, out=y[:, 0], return_lse=True)

    with pytest.raises(ValueError, match=r"^out: shares storage with logits"):
        torch.compile(call, backend=backend)(torch.randn(4, 6))


@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize("argument", ["targets", "weight", "bias", "temperature", "rows"])
def test_every_operand_is_looked_at(argument, backend):
    operands = {
        "hidden": torch.randn(4, 6), "weight": torch.randn(5, 6), "targets": torch.arange(4),
        "bias": torch.randn(5), "temperature": torch.ones(4), "rows": torch.arange(4),
    }  # fmt: skip
    memory = operands[argument].view(torch.float32).flatten()[:4]
    compiled = torch.compile(lambda out, **operands: sb.linear_logp(**operands, out=out), backend=backend)
    before = memory.clone()
    with pytest.raises(ValueError, match=rf"^out: shares storage with {argument}"):
        compiled(memory, **operands)
    assert_same_bits(memory, before)


@pytest.mark.parametrize("backend", BACKENDS[:2])
@pytest.mark.parametrize(
    ("buffer", "message"),
    [
        (torch.zeros(1).expand(4), r"^out: has shape \[4\] and strides \[0\]"),
        (torch._neg_view(torch.zeros(4)), r"^out: is a view that negates its memory"),
    ],
    ids=["expanded", "negated"],
)
def test_a_buffer_of_the_wrong_kind_is_refused(buffer, message, backend, x):
    for _, call in CALLS.values():
        with pytest.raises(ValueError, match=message):
            torch.compile(call, backend=backend)(x, buffer)


def test_without_graph_breaks_the_error_still_says_what_is_wrong(x):
    compiled = torch.compile(CALLS["logp"][1], backend="eager", fullgraph=True)
    says = "out: the memory of a buffer of a call that records" if x.requires_grad else "out: shares storage"
    with pytest.raises(RuntimeError, match=says):
        compiled(x, x.detach()[:, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_flow_through_the_buffer(backend):
    x, head = torch.randn(4, 6), CALLS["linear_logp"][1]
    gradients = []
    for function in (head, torch.compile(head, backend=backend)):
        leaf, out = x.clone().requires_grad_(), torch.empty(4)
        returned = function(leaf, out)
        returned.sum().backward()
        gradients.append(leaf.grad)
        assert returned is out
    assert_same_bits(gradients[1], gradients[0])


def test_the_check_is_an_operator_like_any_other():
    targets, x = torch.arange(4), torch.randn(4, 6)
    rest = ([x, targets], "logits,targets")
    torch.library.opcheck(torch.ops.samebits.apart.default, (targets, torch.empty(4), *rest))
    with pytest.raises(ValueError, match=r"^out: shares storage with logits"):
        torch.ops.samebits.apart(targets, x[:, 0], *rest)


def test_the_look_at_memory_is_never_compiled():
    def call(x, out):
        return sb.logp(x, TARGETS, out=out)

    with pytest.raises(ValueError, match="already requires grad"):
        torch.compile(call, backend="eager")(torch.randn(4, 6), torch.empty(4, requires_grad=True))
    # From here on the compiler leaves the check to eager mode, but not what it calls.
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="Dynamo does not know how to trace")
        compiled = torch.compile(lambda x, out: call(x, out).sum(), backend="eager")
        compiled(torch.randn(4, 6, requires_grad=True), torch.empty(4)).backward()


def written_twice(call, compiled):
    """A buffer that a product saved for backward is written again."""
    out, w = torch.empty(4), torch.ones(4, requires_grad=True)
    call, steps = compiled(call), torch.randn(2, 4, 6)
    value = (call(steps[0], out) * w).sum()
    call(steps[1], out)
    value.backward()


def written_twice_inside(call, compiled):
    def steps(x, out, w):
        value = (call(x[0], out) * w).sum()
        call(x[1], out)
        return value

    compiled(steps)(torch.randn(2, 4, 6), torch.empty(4), torch.ones(4, requires_grad=True)).backward()


def written_through_a_view(call, compiled):
    base, w = torch.ones(8), torch.ones(8, requires_grad=True)
    value = (base * w).sum()
    compiled(call)(torch.randn(4, 6), base[:4])
    value.backward()


@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("change", [written_twice, written_twice_inside, written_through_a_view])
def test_a_buffer_that_changed_since_it_was_saved_gives_no_gradient(change, name, backend):
    def compiled(function):
        return function if backend is None else torch.compile(function, backend=backend)

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        change(CALLS[name][1], compiled)
