"""sb.embedding on a CPU: rows, the gradient's order, options, refusals.

The letter and number of a test are those of the project's list of field failures.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samebits as sb
from support import DTYPES, assert_same_bits

NAN_BITS = {torch.float32: 0x7FFFFFFF, torch.bfloat16: 0x7FFF, torch.float16: 0x7FFF}


def gradient_of(ids, weight, upstream, **options):
    leaf = weight.detach().requires_grad_()
    return torch.autograd.grad(sb.embedding(ids, leaf, **options), leaf, upstream)[0]


def contract_gradient(ids, upstream, vocab, padding_idx=None):
    """Segments of 1024 positions of an id, ascending, each from +0 and added from +0; rounded at the end."""
    wide = torch.float64 if upstream.dtype == torch.float64 else torch.float32
    flat, rows = ids.flatten().tolist(), upstream.to(wide).flatten(0, -2)
    total = torch.zeros(vocab, upstream.shape[-1], dtype=wide)
    segment, count = torch.zeros_like(total), [0] * vocab
    for id_, row in zip(flat, rows, strict=True):
        if not 0 <= id_ < vocab or id_ == padding_idx:
            continue
        segment[id_] += row
        count[id_] += 1
        if count[id_] % 1024 == 0:
            total[id_] += segment[id_]
            segment[id_] = 0
    return (total + segment).to(upstream.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3, 4)], ids=str)
def test_rows_are_those_of_the_weight(dtype, shape):
    weight, ids = torch.randn(9, 5).to(dtype), torch.randint(0, 9, shape)
    for index in (ids, ids.int()):
        assert_same_bits(sb.embedding(index, weight), weight[ids])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 1024, 1025, 2049, 5000])
def test_the_gradient_is_the_contracts(dtype, count):
    ids = torch.randint(-1, 4, (count,))
    ids[: count * 3 // 4] = 2
    ids = ids[torch.randperm(count)]
    upstream = torch.randn(count, 19).to(dtype)
    weight = torch.randn(4, 19).to(dtype)
    for padding_idx in (None, 1):
        expected = contract_gradient(ids, upstream, 4, padding_idx)
        assert_same_bits(gradient_of(ids, weight, upstream, padding_idx=padding_idx), expected)


@given(st.lists(st.integers(-2, 9), max_size=40), st.integers(1, 40), st.sampled_from(DTYPES))
def test_any_ids_give_the_contracts_gradient(ids, columns, dtype):
    ids = torch.tensor(ids, dtype=torch.long)
    upstream = torch.randn(len(ids), columns).to(dtype)
    expected = contract_gradient(ids, upstream, 8)
    assert_same_bits(gradient_of(ids, torch.zeros(8, columns, dtype=dtype), upstream), expected)


@pytest.mark.parametrize("padding_idx", [None, 0, 3, -1, -9])
def test_options_mean_what_torchs_mean(padding_idx):
    weight = torch.randn(9, 5, dtype=torch.float64)
    ids, upstream = torch.randint(0, 9, (4, 6)), torch.randn(4, 6, 5, dtype=torch.float64)
    ours, theirs = weight.clone().requires_grad_(), weight.clone().requires_grad_()
    values = sb.embedding(ids, ours, padding_idx=padding_idx)
    expected = torch.nn.functional.embedding(ids, theirs, padding_idx=padding_idx)
    assert_same_bits(values, expected)
    values.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a3_an_id_out_of_range_is_never_another_row(dtype):
    weight = torch.randn(8, 5).to(dtype).requires_grad_()
    ids = torch.tensor([3, -100, -1, 8, 2**32 + 3])
    rows = sb.embedding(ids, weight)
    assert_same_bits(rows[0], weight[3])
    integer = torch.int32 if dtype == torch.float32 else torch.int16
    assert (rows[1:].detach().view(integer) == NAN_BITS[dtype]).all()
    zero = sb.embedding(ids, weight, on_invalid="zero")
    assert_same_bits(zero[1:], torch.zeros(4, 5, dtype=dtype))
    upstream = torch.randn(5, 5).to(dtype)
    for values in (rows, zero):
        (gradient,) = torch.autograd.grad(values, weight, upstream)
        assert_same_bits(gradient[3], upstream[0])
        assert not gradient[torch.arange(8) != 3].any()
    with pytest.raises(ValueError, match=r"^ids: has id -100 at position 1; ids must be within \[0, 8\)"):
        sb.embedding(ids, weight, on_invalid="raise")


def test_a5_no_ids():
    weight = torch.randn(7, 5, requires_grad=True)
    for shape in ((0,), (2, 0)):
        rows = sb.embedding(torch.zeros(shape, dtype=torch.long), weight)
        assert rows.shape == (*shape, 5)
        (gradient,) = torch.autograd.grad(rows.sum(), weight)
        assert_same_bits(gradient, torch.zeros(7, 5))


def test_a6_ids_of_any_stride_and_width():
    weight, base = torch.randn(50, 6), torch.randint(0, 50, (8, 4))
    upstream = torch.randn(8, 2, 6)
    for ids in (
        base[:, ::2],
        base[:, ::2].int(),
        base[:, 1:2].expand(8, 2),
        base.t()[:2].t(),
        base.flip(0)[:, 2:],
    ):
        assert_same_bits(sb.embedding(ids, weight), sb.embedding(ids.contiguous(), weight))
        expected = gradient_of(ids.contiguous().long(), weight, upstream)
        assert_same_bits(gradient_of(ids, weight, upstream), expected)
    with pytest.raises(TypeError, match=r"^ids: is float32"):
        sb.embedding(base.float(), weight)


def test_a7_a_weight_and_an_upstream_of_any_stride():
    ids, wide = torch.randint(0, 8, (5, 3)), torch.randn(8, 30)
    upstream = torch.randn(3, 5, 12)
    for weight in (
        wide[:, :12],
        wide[:, 5:17],
        wide[:, ::2][:, :12],
        wide[:1].expand(8, 30)[:, :12],
        wide.t()[:8, :8],
    ):
        grad = upstream[..., : weight.shape[1]].transpose(0, 1)
        assert_same_bits(sb.embedding(ids, weight), sb.embedding(ids, weight.contiguous()))
        expected = gradient_of(ids, weight.contiguous(), grad.contiguous())
        assert_same_bits(gradient_of(ids, weight, grad), expected)
    ones = gradient_of(ids, wide, torch.ones(()).expand(5, 3, 30))
    assert_same_bits(ones[:, 0], ids.flatten().bincount(minlength=8).float())


def test_a9_inputs_keep_their_bits():
    ids, weight = torch.randint(-1, 9, (20,)), torch.randn(8, 5)
    kept = ids.clone(), weight.clone()
    upstream = torch.randn(20, 5)
    first = gradient_of(ids, weight, upstream)
    assert_same_bits(gradient_of(ids, weight, upstream), first)
    assert torch.equal(ids, kept[0])
    assert_same_bits(weight, kept[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a12_autocast_changes_no_bits(dtype):
    ids, weight, upstream = torch.randint(0, 8, (20,)), torch.randn(8, 5), torch.randn(20, 5)
    with torch.autocast("cpu", dtype=dtype):
        rows, gradient = sb.embedding(ids, weight), gradient_of(ids, weight, upstream)
    assert_same_bits(rows, weight[ids])
    assert_same_bits(gradient, gradient_of(ids, weight, upstream))


def test_a11_a13_recording_changes_no_bits_and_costs_nothing_where_nobody_asks():
    ids, weight = torch.randint(0, 8, (20,)), torch.randn(8, 5, requires_grad=True)
    recorded = sb.embedding(ids, weight)
    assert recorded.grad_fn is not None
    assert sb.embedding(ids, weight.detach()).grad_fn is None
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_same_bits(sb.embedding(ids, weight).clone(), recorded)


def test_a15_batches_split_in_any_way_give_the_same_rows():
    ids, weight = torch.randint(0, 1000, (64,)), torch.randn(1000, 256).bfloat16()
    whole = sb.embedding(ids, weight)
    for size in (1, 4, 8, 64):
        assert_same_bits(torch.cat([sb.embedding(part, weight) for part in ids.split(size)]), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [1, 2063, 3072, 3073, 20000])
def test_a22_repeats_threads_and_torchs_flag_change_no_bits(dtype, count):
    ids, weight = torch.randint(0, 35, (count,)), torch.randn(35, 64).to(dtype)
    upstream = torch.randn(count, 64).to(dtype)
    first = gradient_of(ids, weight, upstream)
    for repeat in range(20):
        torch.set_num_threads(1 + repeat % 3)
        torch.use_deterministic_algorithms(repeat % 2 == 1)
        try:
            assert_same_bits(gradient_of(ids, weight, upstream), first)
        finally:
            torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("dtype", "count"), [(torch.bfloat16, 1000), (torch.float16, 3000)], ids=str)
def test_a23_ones_add_up(dtype, count):
    gradient = gradient_of(
        torch.full((count,), 3), torch.zeros(6, 4, dtype=dtype), torch.ones(count, 4, dtype=dtype)
    )
    assert (gradient[3] == count).all()
    assert not gradient[torch.arange(6) != 3].any()


def test_a24_an_accumulator_does_not_stall_in_chunks():
    ids, upstream = torch.randint(0, 35, (8192,)), torch.randn(8192, 16).bfloat16()
    weight = torch.randn(35, 16).bfloat16().requires_grad_()
    exact = torch.zeros(35, 16, dtype=torch.float64).index_add(0, ids, upstream.double())
    for chunks in (1, 16, 1024):
        buffer = torch.zeros(35, 16)
        for part, grad in zip(ids.chunk(chunks), upstream.chunk(chunks), strict=True):
            sb.embedding(part, weight, grad_accumulator=buffer).backward(grad)
        assert (buffer - exact).abs().max() < 1e-3  # sums of some 234 terms of size 1, in float32
    assert weight.grad is None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_an_accumulator_gets_one_rounding_and_keeps_rows_nobody_refers_to(dtype):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    ids, weight = torch.tensor([1, 5, 1, -1, 3]), torch.randn(7, 6).to(dtype).requires_grad_()
    upstream, start = torch.randn(5, 6).to(dtype), torch.randn(7, 6, dtype=wide)
    start[0] = -0.0
    buffer = start.clone()
    version = buffer._version
    sb.embedding(ids, weight, padding_idx=3, grad_accumulator=buffer).backward(upstream)
    assert weight.grad is None and buffer._version > version
    expected = start.clone()
    rows = upstream.to(wide)
    expected[1] += rows[0] + rows[2]
    expected[5] += rows[1]
    assert_same_bits(buffer, expected)


def test_an_accumulator_has_its_refusals():
    ids, weight = torch.tensor([1]), torch.randn(7, 6, requires_grad=True)
    for buffer, error, message in (
        (3, TypeError, "^grad_accumulator: is a int"),
        (torch.zeros(7, 6).bfloat16(), TypeError, "^grad_accumulator: is bfloat16; must be float32"),
        (torch.zeros(6, 7), ValueError, r"^grad_accumulator: has shape \[6, 7\]; must be \[7, 6\]"),
        (torch.zeros(7, 6, requires_grad=True), ValueError, "^grad_accumulator: requires grad"),
        (torch._neg_view(torch.zeros(7, 6)), ValueError, "^grad_accumulator: is a view that negates"),
        (torch.zeros(1, 6).expand(7, 6), ValueError, "^grad_accumulator: .* elements may coincide"),
        (weight.detach(), ValueError, "^grad_accumulator: shares memory with weight"),
    ):
        with pytest.raises(error, match=message):
            sb.embedding(ids, weight, grad_accumulator=buffer)
    rows = sb.embedding(ids, weight, grad_accumulator=torch.zeros(7, 6))
    with pytest.raises(sb.NotDifferentiableError, match=r"^grad_accumulator: a gradient added to a buffer"):
        torch.autograd.grad(rows.sum(), weight, create_graph=True)
    with pytest.raises(ValueError, match=r"^grad_accumulator: weight does not require grad"):
        sb.embedding(ids, weight.detach(), grad_accumulator=torch.zeros(7, 6))
    with pytest.raises(sb.NotDifferentiableError, match=r"^grad_accumulator: a buffer that backward writes"):
        torch.func.grad(lambda w: sb.embedding(ids, w, grad_accumulator=torch.zeros(7, 6)).sum())(weight)


def test_arguments_that_are_not_allowed_are_named():
    ids, weight = torch.tensor([1]), torch.randn(7, 6)
    for arguments, options, error, message in (
        ((1, weight), {}, TypeError, "^ids: is a int"),
        ((ids, None), {}, TypeError, "^weight: is a NoneType"),
        ((ids.bool(), weight), {}, TypeError, "^ids: is bool; may be int32 or int64"),
        ((ids, weight.long()), {}, TypeError, "^weight: is int64"),
        ((ids, weight[0]), {}, ValueError, r"^weight: has shape \[6\]; must be \[V, H\]"),
        ((ids, weight[:0]), {}, ValueError, r"^weight: has shape \[0, 6\]"),
        ((weight, ids), {}, TypeError, "^ids: is float32"),
        ((ids, weight), {"padding_idx": 7}, ValueError, "^padding_idx: is 7; may be -7 to 6"),
        ((ids, weight), {"padding_idx": 1.0}, TypeError, "^padding_idx: is a float"),
        ((ids, weight), {"on_invalid": "clamp"}, ValueError, "^on_invalid: is 'clamp'"),
        ((ids, weight), {"backend": "abacus"}, ValueError, "^backend: is 'abacus'"),
    ):
        with pytest.raises(error, match=message):
            sb.embedding(*arguments, **options)


def test_the_plan_names_contract_and_options():
    ids, weight = torch.tensor([1]), torch.randn(7, 6)
    plan = sb.plan("embedding", ids, weight, padding_idx=3)
    assert plan.can_run and plan.contract == "embedding.v1" and plan.level == "cross_device"
    assert plan.provenance["semantics"] == {"on_invalid": "nan", "padding_idx": 3}
    assert plan.kernels == (f"embedding_forward/{plan.backend}", f"embedding_backward/{plan.backend}")
    assert sb.plan("embedding", ids, weight.double()).contract == "embedding64.v1"
    with pytest.raises(ValueError, match=r"semantics.padding_idx: 3 and None"):
        sb.require_same(plan, sb.plan("embedding", ids, weight))
