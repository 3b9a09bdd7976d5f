"""memory= of linear_logp: a budget that cannot change a bit, and the way of what was kept to backward."""

import pytest
import torch

import samebits as sb
from samebits import _head, _memory
from support import assert_same_bits

GENERATOR = torch.Generator().manual_seed(0)
HIDDEN = torch.randn(6, 16, generator=GENERATOR).bfloat16().requires_grad_()
WEIGHT = torch.randn(70, 16, generator=GENERATOR).bfloat16().requires_grad_()
TARGETS = torch.tensor([1, 69, -100, 4, 0, 70])
BUDGETS = (0, 1, 300, 1 << 30, 1 << 80, "save", "recompute", "auto")
ROW_BYTES = 2 * 128  # 70 columns, rounded up to a multiple of 64


def gradients(**options):
    """Those of hidden and weight, by ordinary training."""
    return torch.autograd.grad(sb.linear_logp(HIDDEN, WEIGHT, TARGETS, **options).sum(), (HIDDEN, WEIGHT))


@pytest.fixture
def hopper(monkeypatch):
    """A GPU of compute capability 9.0 to ask about, whose kernels keep probabilities."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(_memory, "KEEPING", ((9, 0),))
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        yield


@pytest.fixture
def keeping(monkeypatch):
    """A device that keeps two rows, of zeros: what forward was allowed, and what backward was given."""
    seen = {}

    def forward(*arguments):
        seen["allowed"] = arguments[8]
        return (*_head_forward(*arguments)[:-1], torch.zeros(2, 128).bfloat16())

    def backward(*arguments):
        seen["given"] = arguments[14]
        return _head_backward(*arguments)

    def backward_into(*arguments):
        seen["given"] = arguments[14]
        return _head_backward_into(*arguments)

    _head_forward, _head_backward = _head._forward, _head._backward
    _head_backward_into = _head._backward_into
    monkeypatch.setattr(_head, "_forward", forward)
    monkeypatch.setattr(_head, "_backward", backward)
    monkeypatch.setattr(_head, "_backward_into", backward_into)
    monkeypatch.setattr(_memory, "saved_rows", lambda *_: 5)
    return seen


@pytest.mark.parametrize("memory", BUDGETS)
def test_no_budget_changes_a_bit(memory):
    for actual, expected in zip(gradients(memory=memory), gradients(), strict=True):
        assert_same_bits(actual, expected)


@pytest.mark.parametrize(
    ("memory", "error", "message"),
    [
        ("much", ValueError, r"^memory: is 'much'; may be 'auto', 'save', 'recompute' or a number of bytes$"),
        (-1, ValueError, r"^memory: is -1 bytes; must be at least 0"),
        (True, TypeError, r"^memory: is a bool; may be 'auto'"),
        (1e9, TypeError, r"^memory: is a float; may be 'auto'"),
        (None, TypeError, r"^memory: is a NoneType; may be 'auto'"),
    ],
)
def test_what_is_no_budget_is_refused_by_name(memory, error, message):
    for call in (
        lambda: sb.linear_logp(HIDDEN, WEIGHT, TARGETS, memory=memory),
        lambda: _memory.check(memory),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.mark.usefixtures("hopper")
@pytest.mark.parametrize(
    ("memory", "rows"),
    [
        ("recompute", 0),
        (0, 0),
        (ROW_BYTES - 1, 0),
        (127 * ROW_BYTES, 0),
        (300 * ROW_BYTES, 256),
        ("auto", (4 << 30) // ROW_BYTES // 128 * 128),
        ("save", _memory.EVERY_ROW),
        (1 << 80, _memory.EVERY_ROW),
    ],
)
def test_a_budget_is_as_many_whole_tiles_of_rows_as_fit_in_it(memory, rows):
    hidden, weight = (torch.empty(n, 16, dtype=torch.bfloat16, device="cuda") for n in (6, 70))
    assert _memory.saved_rows(memory, hidden, weight, "auto", False, None) == rows


@pytest.mark.usefixtures("hopper")
def test_columns_beyond_the_true_vocabulary_take_no_room():
    hidden, weight = (torch.empty(n, 16, dtype=torch.bfloat16, device="cuda") for n in (6, 70))
    assert _memory.saved_rows(128 * ROW_BYTES, hidden, weight, "tc16", False, 60) == 256


@pytest.mark.usefixtures("hopper")
def test_nothing_is_kept_where_probabilities_depend_on_the_upstream_or_have_no_kernel(monkeypatch):
    hidden, weight = (torch.empty(n, 16, dtype=torch.bfloat16, device="cuda") for n in (6, 70))
    assert _memory.saved_rows("save", hidden, weight, "auto", False, None)
    assert not _memory.saved_rows("save", hidden, weight, "auto", True, None)
    assert not _memory.saved_rows("save", hidden, weight, "fma", False, None)
    for other in (hidden.half(), hidden.float(), hidden.to("cpu")):
        assert not _memory.saved_rows("save", other, weight, "auto", False, None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert not _memory.saved_rows("save", hidden, weight, "auto", False, None)


@pytest.mark.usefixtures("hopper")
def test_what_is_kept_has_a_row_for_each_row_that_may_take_part():
    hidden, weight = (torch.empty(n, 16, dtype=torch.bfloat16, device="cuda") for n in (6, 70))
    targets, rows = torch.empty(6, dtype=torch.int64), torch.empty(2, dtype=torch.int64)

    def shape(allowed, listed=None, vocab_size=None):
        return _memory.saved_shape(allowed, hidden, weight, targets, listed, vocab_size)

    assert shape(4) == (4, 128) and shape(_memory.EVERY_ROW) == (6, 128)
    assert shape(4, rows) == (2, 128) and shape(0, rows) == (0, 128)
    assert shape(4, vocab_size=64) == (4, 64)


def test_what_forward_keeps_reaches_backward(keeping):
    gradients()
    assert keeping["allowed"] == 5 and keeping["given"].shape == (2, 128)
    keeping.clear()
    buffer = torch.zeros(WEIGHT.shape)
    sb.linear_logp(HIDDEN, WEIGHT, TARGETS, grad_weight_accumulator=buffer).sum().backward()
    HIDDEN.grad = None
    assert keeping["given"].shape == (2, 128)
    keeping.clear()
    first = torch.autograd.grad(
        sb.linear_logp(HIDDEN, WEIGHT, TARGETS).sum(), (HIDDEN, WEIGHT), create_graph=True
    )
    assert keeping["given"].shape == (2, 128)
    torch.autograd.grad(first[0].float().sum(), WEIGHT)


def test_the_transforms_carry_what_was_kept(keeping):
    hidden, weight = HIDDEN.detach(), WEIGHT.detach()

    def total(h):
        return sb.linear_logp(h, weight, TARGETS).sum()

    assert_same_bits(torch.func.grad(total)(hidden), gradients()[0])
    rows = torch.func.jacrev(lambda h: sb.linear_logp(h, weight, TARGETS))(hidden)
    assert keeping["given"].shape == (2, 128)
    assert_same_bits(rows.diagonal(dim1=0, dim2=1).t().contiguous(), gradients()[0])
    _, moved = torch.func.jvp(total, (hidden,), (torch.ones_like(hidden),))
    assert moved.isfinite()


def test_vmap_keeps_nothing_for_kept_rows_are_counted_over_all_samples(keeping):
    samples = HIDDEN.detach().expand(3, 6, 16)
    weight = WEIGHT.detach()
    each = torch.func.vmap(torch.func.grad(lambda h: sb.linear_logp(h, weight, TARGETS).sum()))(samples)
    assert keeping["allowed"] == 0
    for sample in each:
        assert_same_bits(sample, gradients()[0])


def test_outside_autograd_nothing_is_kept(keeping):
    sb.linear_logp(HIDDEN.detach(), WEIGHT.detach(), TARGETS)
    assert not keeping


def test_a_budget_is_traced_by_the_compiler():
    compiled = torch.compile(gradients_of, fullgraph=True, backend="aot_eager")
    for memory in ("auto", 300, "save"):
        for actual, expected in zip(compiled(HIDDEN, memory), gradients_of(HIDDEN, "recompute"), strict=True):
            assert_same_bits(actual, expected)


def gradients_of(hidden, memory):
    """Values and a doubled sum, for the compiler."""
    values = sb.linear_logp(hidden, WEIGHT, TARGETS, memory=memory)
    return values, values.sum() * 2


def test_a25_a_cpu_keeps_its_operands_and_a_few_numbers_a_row():
    hidden, weight = torch.randn(64, 16).requires_grad_(), torch.randn(5000, 16).requires_grad_()
    targets, kept = torch.zeros(64, dtype=torch.int64), {}

    def pack(tensor):
        kept[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.no_grad():
        sb.linear_logp(hidden, weight, targets, memory="save")
    assert not kept
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        sb.linear_logp(hidden, weight, targets, memory="save")
    operands = sum(t.numel() * t.element_size() for t in (hidden, weight, targets))
    assert operands <= sum(kept.values()) <= operands + 64 * 64
