"""Arguments that are not allowed: the right type of error, naming the argument, what it was and what it may
be."""

import numpy
import pytest
import torch

import samebits as sb

X, T = torch.randn(4, 50), torch.tensor([0, 1, 2, 49])

REFUSED = {
    "logits list": (lambda: sb.logp([[1.0]], T), TypeError, r"logits: is a list; must be a torch\.Tensor"),
    "logits numpy": (lambda: sb.logp(X.numpy(), T), TypeError,
        r"logits: is a ndarray; must be a torch\.Tensor"),
    "logits int": (lambda: sb.logp(X.long(), T), TypeError, r"logits: is int64; may be float32"),
    "logits complex": (lambda: sb.logp(X.cfloat(), T), TypeError, r"logits: is complex64; may be float32"),
    "logits scalar": (lambda: sb.logp(X[0, 0], T[0]), ValueError, r"logits: has"),
    "no columns": (lambda: sb.logp(X[:, :0], T), ValueError, r"logits: has an empty vocabulary axis"),
    "logits sparse": (lambda: sb.logp(X.to_sparse(), T), TypeError,
        r"logits: is a sparse_coo tensor; must be an ordinary strided one"),
    "logits rank": (lambda: sb.logp(X.view([1] * 7 + [4, 50]), T.view([1] * 7 + [4])), ValueError,
        r"logits: has 9 dimensions; may have at most 8"),
    "logits rank, recorded": (
        lambda: sb.logp(X.view([1] * 7 + [4, 50]).requires_grad_(), T.view([1] * 7 + [4])), ValueError,
        r"logits: has 9 dimensions; may have at most 8"),
    "targets list": (lambda: sb.logp(X, [0, 1, 2, 3]), TypeError, r"targets: is a list"),
    "targets float": (lambda: sb.logp(X, T.float()), TypeError,
        r"targets: is float32; may be int32 or int64"),
    "targets int16": (lambda: sb.logp(X, T.short()), TypeError, r"targets: is int16; may be int32 or int64"),
    "targets bool": (lambda: sb.logp(X, T.bool()), TypeError, r"targets: is bool; may be int32 or int64"),
    "targets short": (lambda: sb.logp(X, T[:3]), ValueError, r"targets: has shape \[3\]; must have .*\[4\]"),
    "targets K": (lambda: sb.logp(X, T.view(4, 1)), ValueError,
        r"targets: has shape \[4, 1\]; must have .*\[4\]"),
    "targets meta": (lambda: sb.logp(X, T.to("meta")), ValueError,
        r"targets: is on meta but logits is on cpu"),
    "temperature 0": (lambda: sb.logp(X, T, temperature=0), ValueError, r"temperature: is 0; must be finite"),
    "temperature -1": (lambda: sb.logp(X, T, temperature=-1), ValueError,
        r"temperature: is -1; must be finite"),
    "temperature text": (lambda: sb.logp(X, T, temperature="1"), TypeError,
        r"temperature: is a str; may be a num"),
    "temperature bool": (lambda: sb.logp(X, T, temperature=True), TypeError, r"temperature: is a bool"),
    "temperature sparse": (lambda: sb.logp(X, T, temperature=torch.ones(4).to_sparse()), TypeError,
        r"temperature: is a sparse_coo tensor"),
    "temperature huge": (lambda: sb.logp(X, T, temperature=10**400), ValueError,
        r"temperature: is beyond float64"),
    "temperature half": (lambda: sb.logp(X, T, temperature=torch.ones(4).half()), TypeError,
                         r"temperature: is float16; may be float32 or float64"),
    "temperature shape": (lambda: sb.logp(X, T, temperature=torch.ones(3)), ValueError,
                          r"temperature: has shape \[3\]; may be a number, or a tensor of shape \[4\]"),
    "temperature grad": (lambda: sb.logp(X, T, temperature=torch.ones(4, requires_grad=True)), ValueError,
                         r"temperature: requires grad or has a tangent; a temperature is a constant"),
    "rows 2-D": (lambda: sb.logp(X, T, rows=T.view(2, 2)), ValueError,
        r"rows: has shape \[2, 2\]; must be 1-D"),
    "rows mask": (lambda: sb.logp(X, T, rows=T > 1), TypeError, r"rows: is bool; may be int32 or int64"),
    "rows list": (lambda: sb.logp(X, T, rows=[0]), TypeError, r"rows: is a list; must be a torch\.Tensor"),
    "precision": (lambda: sb.logp(X, T, precision="fp16"), ValueError,
        r"precision: is 'fp16'; may be None .* 'fp64'"),
    "on_invalid": (lambda: sb.logp(X, T, on_invalid="skip"), ValueError,
        r"on_invalid: is 'skip'; may be 'zero'"),
    "ignore_index": (lambda: sb.logp(X, T, ignore_index=1.5), TypeError,
        r"ignore_index: is a float; may be an int"),
    "ignore_index huge": (lambda: sb.logp(X, T, ignore_index=2**63), ValueError,
        r"ignore_index: is 9223372036854775808; must fit into 64 bits"),
    "vocab_size": (lambda: sb.logp(X, T, vocab_size=51), ValueError, r"vocab_size: is 51; must be 1 to 50"),
    "vocab_size 0": (lambda: sb.logp(X, T, vocab_size=0), ValueError, r"vocab_size: is 0; must be 1 to 50"),
    "backend": (lambda: sb.logp(X, T, backend="cuda"), ValueError,
        r"backend: is 'cuda'; may be 'auto', .*'scalar'"),
    "backend type": (lambda: sb.logp(X, T, backend=3), TypeError, r"backend: is a int; may be a name"),
    "backend empty": (lambda: sb.logp(X, T, backend=""), ValueError, r"backend: is ''; may be "),
    "matmul backend": (lambda: sb.matmul(X, X.t(), backend=""), ValueError, r"backend: is ''; may be "),
    "matmul backend type": (lambda: sb.matmul(X, X.t(), backend=3), TypeError, r"backend: is a int; may be"),
    "head backend": (lambda: sb.linear_logp(X, X, T, backend=""), ValueError, r"backend: is ''; may be "),
    "embedding backend": (lambda: sb.embedding(T, X, backend=""), ValueError, r"backend: is ''; may be "),
    "matmul out_dtype type": (lambda: sb.matmul(X, X.t(), out_dtype="float32"), TypeError,
        r"out_dtype: is 'float32'; may be float32"),
    "raise": (lambda: sb.logp(X, T, vocab_size=49, on_invalid="raise"), ValueError,
              r"targets: has id 49 at row 3; ids must be within \[0, 49\)"),
    "too many columns": (lambda: sb.logp(torch.zeros(1, 1).expand(1, 2**22 + 1), T[:1]), ValueError,
                         r"logits: has 4194305 vocabulary columns; may have at most 4194304"),
    "matmul mixed": (lambda: sb.matmul(X, X.t().double()), TypeError, r"b: is float64 but a is float32"),
    "matmul inner": (lambda: sb.matmul(X, X), ValueError, r"b: has shape \[4, 50\]; must be \[50, N\]"),
    "matmul 1-D": (lambda: sb.matmul(X[0], X.t()), ValueError, r"a: has shape \[50\]; must have at least 2"),
    "matmul contract": (lambda: sb.matmul(X, X.t(), contract="fast"), ValueError,
        r"contract: is 'fast'; may be"),
    "matmul tc16": (lambda: sb.matmul(X, X.t(), contract="tc16"), ValueError,
        r"contract: is 'tc16' with float32 operands; tc16 takes bfloat16 or float16"),
    "matmul out_dtype": (lambda: sb.matmul(X, X.t(), out_dtype=torch.float16), TypeError,
        r"out_dtype: is float16; may be float32"),
    "linear bias": (lambda: sb.linear(X, X, X[0]), ValueError, r"bias: has shape \[50\]; must be \[4\]"),
    "linear mixed": (lambda: sb.linear(X, X, X[:, 0].double()), TypeError,
        r"bias: is float64 but x is float32"),
    "head swapped": (lambda: sb.linear_logp(torch.randn(4, 60), torch.randn(60, 8), T), ValueError,
        r"hidden: has shape \[4, 60\]; must be \[\.\.\., 8\], for weight is \[60, 8\].*looks like logits"),
    "head 1-D": (lambda: sb.linear_logp(X, X[0], T), ValueError,
        r"weight: has shape \[50\]; must be \[V, H\]"),
    "head empty": (lambda: sb.linear_logp(X, X[:0], T), ValueError, r"weight: has shape \[0, 50\]"),
    "head mixed": (lambda: sb.linear_logp(X.bfloat16(), X, T), TypeError,
        r"weight: is float32 but hidden is bfloat16"),
    "head tc16": (lambda: sb.linear_logp(X, X, T, contract="tc16"), ValueError,
        r"contract: is 'tc16' with float32 operands; tc16 takes bfloat16 or float16"),
    "head fp64": (lambda: sb.linear_logp(X.half(), X.half(), T, precision="fp64"), RuntimeError,
        r"precision: is 'fp64' with float16 operands"),
    "head group": (lambda: sb.linear_logp(X, X, T, group=1), NotImplementedError,
        r"group: tensor parallelism"),
    "head memory": (lambda: sb.linear_logp(X, X, T, memory="much"), ValueError, r"memory: is 'much'; may be"),
    "head targets": (lambda: sb.linear_logp(X, X, T[:2]), ValueError,
        r"targets: has shape \[2\]; must have the leading shape \[4\] of hidden"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match="^" + message) as caught:
        call()
    assert type(caught.value) is error


def test_numbers_of_numpy_are_numbers():
    for number in (numpy.float64(0.5), numpy.float32(0.5), numpy.int64(2)):
        assert torch.equal(sb.logp(X, T, temperature=number), sb.logp(X, T, temperature=float(number)))


def ones_by(rows, columns, dtype=torch.float32):
    """A large matrix of one element."""
    return torch.ones(1, 1, dtype=dtype).expand(rows, columns)


TOO_LARGE = {
    "a result": (
        lambda: sb.matmul(ones_by(1 << 24, 1), ones_by(1, 1 << 24)),
        "[16777216, 16777216] and dtype float32, 1125899906842624",
    ),
    "bytes past int64": (
        lambda: sb.matmul(ones_by(1 << 40, 1, torch.float64), ones_by(1, 1 << 20, torch.float64)),
        "[1099511627776, 1048576] and dtype float64, 9223372036854775808",
    ),
    "elements past int64": (
        lambda: sb.matmul(ones_by(1 << 40, 1), ones_by(1, 1 << 40)),
        "[1099511627776, 1099511627776] and dtype float32, 2^64 or more",
    ),
    "a copy of logits that are not dense": (
        lambda: sb.logp(ones_by(1 << 26, 1 << 24), T[:1].expand(1 << 26)),
        "[67108864, 16777216] and dtype float32, 4503599627370496",
    ),
    "a gradient": (
        lambda: sb.embedding(
            T, ones_by(1 << 40, 64, torch.bfloat16).requires_grad_()
        ).sum().backward(),
        "[1099511627776, 64] and dtype bfloat16, 140737488355328",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_finds_no_memory_is_named(name):
    call, tensor = TOO_LARGE[name]
    with pytest.raises(RuntimeError) as caught:
        call()
    assert str(caught.value) == f"samebits: a tensor of shape {tensor} bytes, cannot be allocated on cpu"


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("rows", "size", "message"),
    [
        (1 << 40, 64, "hidden: has shape [1099511627776, 64], 1099511627776 rows; may have at most 2^36"),
        (3, 1 << 40, "weight: has shape [5, 1099511627776], 1099511627776 columns; may have at most 2^31"),
    ],
    ids=["rows", "columns"],
)
def test_a_head_larger_than_any_memory_is_not_begun(rows, size, message, recorded):
    hidden, weight = ones_by(rows, size, torch.bfloat16), ones_by(5, size, torch.bfloat16)
    targets = T[:1].expand(rows)
    with pytest.raises(ValueError) as caught:
        sb.linear_logp(hidden.requires_grad_(recorded), weight, targets)
    assert str(caught.value) == message
    assert sb.plan("linear_logp", hidden, weight, targets).refusals == (message,)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("op", ["logp", "linear_logp"])
def test_a_list_of_rows_longer_than_any_memory_is_not_begun(op, recorded):
    operands = (X, T) if op == "logp" else (torch.ones(4, 3), torch.ones(50, 3), T)
    first = operands[0].clone().requires_grad_(recorded)
    rows = T[:1].expand(1 << 36)
    message = "rows: has shape [68719476736], 68719476736 entries; may have at most 2^31"
    with pytest.raises(ValueError) as caught:
        getattr(sb, op)(first, *operands[1:], rows=rows)
    assert str(caught.value) == message
    assert sb.plan(op, *operands, rows=rows).refusals == (message,)


@pytest.mark.parametrize("leading", [(2,), (2, 3)])
def test_a_product_over_more_than_any_memory_holds_is_not_begun(leading):
    a, b = torch.ones(1).expand(*leading, 1 << 40), ones_by(1 << 40, 3)
    message = f"has shape {list(a.shape)}, 1099511627776 columns; may have at most 2^36"
    with pytest.raises(ValueError) as caught:
        sb.matmul(a, b)
    assert str(caught.value) == f"a: {message}"
    assert sb.plan("matmul", a, b).refusals == (f"a: {message}",)
    with pytest.raises(ValueError) as caught:
        sb.linear(a, b.t())
    assert str(caught.value) == f"x: {message}"


def test_a_head_without_columns_is_refused_by_the_call_and_by_its_plan():
    operands = torch.ones(2, 0), torch.ones(3, 0), T[:2]
    with pytest.raises(ValueError) as caught:
        sb.linear_logp(*operands)
    message = "weight: has shape [3, 0]; must be [V, H] with at least one row and one column"
    assert str(caught.value) == message
    assert sb.plan("linear_logp", *operands).refusals == (message,)
