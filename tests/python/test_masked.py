"""masked_sum and masked_mean: the exact sum rounded once, whatever the order, the layout and the mask."""

import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samebits as sb
from exact import integers, mean_of, sum_of
from support import assert_same_bits, bits

NAN, INF = float("nan"), float("inf")
REAL = (torch.float32, torch.float64)


def patterns(dtype, numbers):
    """Floats from raw bits; infinities and NaN become 1."""
    kind = torch.int32 if dtype == torch.float32 else torch.int64
    width = 32 if dtype == torch.float32 else 64
    wrapped = [(n & (2**width - 1)) - 2 ** (width - 1) for n in numbers]
    values = torch.tensor(wrapped, dtype=kind).view(dtype)
    return torch.where(torch.isfinite(values), values, 1.0)


@pytest.mark.parametrize("dtype", REAL)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=12), st.booleans())
def test_a_sum_is_the_exact_one_rounded_once(dtype, numbers, cancels):
    values = patterns(dtype, numbers)
    if cancels:
        values = torch.cat([values, -values.flip(0)[1:]])
    assert_same_bits(sb.masked_sum(values), torch.tensor(sum_of(values.tolist(), dtype), dtype=dtype))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("seed", range(30))
def test_near_numbers_round_to_even_and_cancel_exactly(dtype, seed):
    generator = random.Random(seed)
    unit = -140 if dtype == torch.float32 else -1060
    numbers = [generator.randint(-9, 9) * 2.0 ** (unit + generator.randint(-9, 40)) for _ in range(40)]
    values = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    assert_same_bits(sb.masked_sum(values), torch.tensor(sum_of(values.tolist(), dtype), dtype=dtype))


@pytest.mark.parametrize("dtype", REAL)
def test_ties_and_the_ends_of_the_range(dtype):
    last = 24 if dtype == torch.float32 else 53
    largest, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal
    cases = {
        (2.0**last, 1.0): 2.0**last,
        (2.0**last + 2, 1.0): 2.0**last + 4,
        (2.0**last, 1.0, 2.0**-99): 2.0**last + 2,
        (-(2.0**last), -1.0): -(2.0**last),
        (largest, largest, -largest): largest,
        (largest, largest): INF,
        (-largest, -largest): -INF,
        (least, -least / 2): least / 2,
        (1.0, -1.0): 0.0,
        (-0.0, -0.0): 0.0,
        (): 0.0,
    }
    for terms, expected in cases.items():
        result = sb.masked_sum(torch.tensor(terms, dtype=dtype))
        assert_same_bits(result, torch.tensor(expected, dtype=dtype), str(terms))


@pytest.mark.parametrize("dtype", REAL)
def test_infinities_and_nan(dtype):
    pattern = 0x7FFFFFFF if dtype == torch.float32 else 0x7FF8000000000000
    for terms, expected in (
        ((INF, 1.0), INF), ((-INF, 1.0), -INF), ((INF, -INF), NAN), ((NAN, INF), NAN), ((-NAN, 0.0), NAN),
    ):  # fmt: skip
        for reduce in (sb.masked_sum, sb.masked_mean):
            result = reduce(torch.tensor(terms, dtype=dtype))
            if math.isnan(expected):
                assert int(bits(result)) == pattern, terms
            else:
                assert result.item() == expected, terms


def test_what_is_masked_is_not_looked_at():
    values = torch.tensor([1.0, NAN, 3.0, INF, -INF], requires_grad=True)
    mask = torch.tensor([True, False, True, False, False])
    for reduce, upstream in ((sb.masked_sum, 1.0), (sb.masked_mean, 0.5)):
        result = reduce(values, mask)
        assert result.item() == 4 * upstream
        (grad,) = torch.autograd.grad(result, values)
        assert_same_bits(grad, torch.tensor([upstream, 0.0, upstream, 0.0, 0.0]))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("reduce", [sb.masked_sum, sb.masked_mean])
def test_order_padding_packing_and_strides_do_not_matter(reduce, dtype):
    lengths = [3, 0, 7, 1]
    padded = torch.randn(4, 7, dtype=dtype)
    mask = torch.arange(7) < torch.tensor(lengths)[:, None]
    rows = torch.arange(4)[:, None].expand(4, 7)
    padded[~mask] = NAN
    packed, ids = padded[mask], rows[mask]
    shuffled = torch.randperm(11)

    whole = reduce(padded, mask)
    assert_same_bits(reduce(packed), whole)
    assert_same_bits(reduce(packed[shuffled]), whole)
    assert_same_bits(reduce(padded.t(), mask.t()), whole)
    assert_same_bits(reduce(packed.repeat_interleave(2)[::2]), whole)

    each = reduce(padded, mask, segments=rows, count=4)
    assert_same_bits(reduce(packed, segments=ids, count=4), each)
    assert_same_bits(reduce(packed[shuffled], segments=ids[shuffled].int(), count=4), each)
    for row in (0, 2, 3):
        assert_same_bits(reduce(padded[row], mask[row]), each[row])


def test_threads_do_not_matter():
    values = torch.randn(100_000)
    one = sb.masked_sum(values)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        assert_same_bits(sb.masked_sum(values), one)
    assert one.item() == sum_of(values.tolist(), torch.float32)


@pytest.mark.parametrize("dtype", REAL)
def test_a_mean_is_the_sum_in_binary64_divided_there(dtype):
    for count in range(1, 60):
        values = torch.randn(count, dtype=dtype) * 10 ** (count % 9)
        assert sb.masked_mean(values).item() == mean_of(values.tolist(), dtype)


def test_a_mean_of_nothing():
    values, nothing = torch.ones(3, requires_grad=True), torch.zeros(3, dtype=torch.bool)
    assert int(bits(sb.masked_mean(values, nothing))) == 0x7FFFFFFF
    assert_same_bits(sb.masked_mean(values, nothing, on_empty="zero"), torch.zeros(()))
    segments = torch.tensor([0, 0, 2])
    means = sb.masked_mean(values, segments=segments, count=4)
    assert means.isnan().tolist() == [False, True, False, True]
    (grad,) = torch.autograd.grad(means[[0, 2]].sum(), values)
    assert_same_bits(grad, torch.tensor([0.5, 0.5, 1.0]))


def test_segments_out_of_range_take_no_part():
    values = torch.tensor([1.0, 2.0, NAN, 8.0], requires_grad=True)
    sums = sb.masked_sum(values, segments=torch.tensor([0, 1, -1, 2]), count=2)
    assert_same_bits(sums, torch.tensor([1.0, 2.0]))
    (grad,) = torch.autograd.grad(sums, values, torch.tensor([3.0, 5.0]))
    assert_same_bits(grad, torch.tensor([3.0, 5.0, 0.0, 0.0]))
    assert sb.masked_sum(torch.ones(0), segments=torch.ones(0, dtype=torch.int64), count=0).shape == (0,)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bit_values_are_summed_exactly_in_float32(dtype):
    values = torch.randn(33).to(dtype).requires_grad_()
    result = sb.masked_mean(values)
    assert_same_bits(result, torch.tensor(mean_of(values.tolist(), torch.float32)))
    (grad,) = torch.autograd.grad(result, values)
    assert_same_bits(grad, torch.full((33,), 1 / 33).to(dtype))


# Recorded with contract sum.v1: (dtype, seed, count) -> bits of masked_sum and masked_mean.
GOLDEN = {
    (torch.float32, 1, 5): (0x442435E1, 0x43035E4E),
    (torch.float32, 2, 1000): (0xC5FA16E1, 0xC1000BB7),
    (torch.float64, 3, 5): (0xC073D8A5CBBFA200, 0xC04FC10945FF699A),
    (torch.float64, 4, 1000): (0xC0C8E8C880245B40, 0xC02981D374E1A51F),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_golden(case):
    dtype, seed, count = case
    numbers = [(n - 2**31) * 2.0 ** -(20 + n % 17) for n in integers(count, seed)]
    values = torch.tensor(numbers, dtype=torch.float64).to(dtype)
    width = torch.finfo(dtype).bits
    found = (int(bits(f(values))) % 2**width for f in (sb.masked_sum, sb.masked_mean))
    assert tuple(found) == GOLDEN[case]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0],), TypeError, "values: is a list; must be a torch.Tensor"),
        ((torch.ones(2, dtype=torch.int64),), TypeError, "values: is int64; may be"),
        ((torch.ones(2), torch.ones(2)), TypeError, "mask: is float32; must be bool"),
        (
            (torch.ones(2), torch.ones(1, dtype=torch.bool)),
            ValueError,
            r"mask: has shape \[1\]; must be \[2\]",
        ),
        ((torch.ones(2), torch.ones(2, dtype=torch.bool, device="meta")), ValueError, "mask: is on meta"),
    ],
)
def test_refusals(arguments, error, message):
    for reduce in (sb.masked_sum, sb.masked_mean):
        with pytest.raises(error, match=message):
            reduce(*arguments)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"segments": torch.zeros(2, dtype=torch.int64)},
            ValueError,
            "count: is None; must be given with seg",
        ),
        ({"count": 2}, ValueError, "segments: is None; must be given with count"),
        ({"segments": torch.zeros(2), "count": 1}, TypeError, "segments: is float32; must be int32 or int64"),
        ({"segments": torch.zeros(3).long(), "count": 1}, ValueError, r"segments: has shape \[3\]; must be"),
        ({"segments": torch.zeros(2).long(), "count": 1.0}, TypeError, "count: is a float; must be an int"),
        ({"segments": torch.zeros(2).long(), "count": -1}, ValueError, "count: is -1; may be 0 to"),
        ({"on_empty": "one"}, ValueError, "on_empty: is 'one'; may be 'nan' or 'zero'"),
    ],
)
def test_refused_options(options, error, message):
    with pytest.raises(error, match=message):
        sb.masked_mean(torch.ones(2), **options)
