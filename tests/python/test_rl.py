"""The loss terms of samebits.rl: bits, accuracy, edges, refusals."""

import math

import mpmath
import pytest
import torch

import exact
import samebits as sb
from support import assert_same_bits, bits

INF, NAN = float("inf"), float("nan")
REAL = (torch.float32, torch.float64)
exp_tail = torch.ops.samebits.exp_tail.default


def arguments(dtype):
    """Exponents of every size, the corners of n = rint(x / log 2) and results below the normal range."""
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(300, generator=generator, dtype=torch.float64)
    edge = 0.34657359027997264
    corners = torch.tensor([0.0, edge, -edge, 1.04, -1.04, 80.0, -87.4, -95.0, -103.9, -745.0, 700.0])
    x = torch.cat([wide * 10, wide, wide * 1e-3, wide * 1e-7, corners.double()]).to(dtype)
    return x[x < (88.7 if dtype == torch.float32 else 709.7)]


def error_in_ulps(result, true, dtype):
    stored, least = (23, -149) if dtype == torch.float32 else (52, -1074)
    exponent = mpmath.floor(mpmath.log(abs(true), 2)) if true else mpmath.mpf(least)
    return float(abs(mpmath.mpf(result) - true) / mpmath.mpf(2) ** max(exponent - stored, least))


# float32: one rounding of a binary64 result, so half an ulp and its error, far below 1/1000. float64: the
# roundings of n * low, r, r * r * q and p for the first; then those of the subtractions as well, whose result
# is 0.29 at least (1 - 1/sqrt 2) and 0.053 (1/sqrt 2 - 1 + log(2)/2) where the short form ends: the error of
# 1 ulp of an exponential up to sqrt 2 becomes at most 4 and 32 ulps of a result that small.
@pytest.mark.parametrize(("terms", "bound"), [(0, 1.0), (1, 5.0), (2, 33.0)])
@pytest.mark.parametrize("dtype", REAL)
def test_exponentials_are_near_the_exact_ones(dtype, terms, bound):
    bound = 0.501 if dtype == torch.float32 else bound
    x = arguments(dtype)
    with mpmath.workprec(300):
        for argument, result in zip(x.tolist(), exp_tail(x, terms).tolist(), strict=True):
            true = mpmath.exp(argument) - sum(mpmath.mpf(argument) ** i for i in range(terms))
            assert error_in_ulps(result, true, dtype) <= bound, argument


@pytest.mark.parametrize("dtype", REAL)
def test_exponentials_of_the_ends(dtype):
    x = torch.tensor([0.0, -0.0, INF, -INF, NAN, -NAN, 1e4, -1e4], dtype=dtype)
    expected = (
        [1.0, 1.0, INF, 0.0, NAN, NAN, INF, 0.0],
        [0.0, 0.0, INF, -1.0, NAN, NAN, INF, -1.0],
        [0.0, 0.0, INF, INF, NAN, NAN, INF, 9999.0],
    )
    pattern = 0x7FFFFFFF if dtype == torch.float32 else 0x7FF8000000000000
    for terms in (0, 1, 2):
        result = exp_tail(x, terms)
        assert bits(result)[4:6].tolist() == [pattern] * 2
        wanted = torch.tensor(expected[terms], dtype=dtype)
        wanted[4:6] = result[4:6]
        assert_same_bits(result, wanted, f"{terms} terms")


def test_an_element_does_not_see_its_neighbours():
    x = torch.randn(1003) * 5
    whole = exp_tail(x, 0)
    for start, end in ((0, 1), (5, 8), (1, 1003), (990, 1001)):
        assert_same_bits(exp_tail(x[start:end], 0), whole[start:end])
    assert_same_bits(exp_tail(x.view(17, 59).t(), 0), whole.view(17, 59).t())


def test_the_ratio_of_equal_bits_is_exactly_one():
    logp = -torch.rand(1000) * 20
    assert_same_bits(sb.rl.ratio(logp, logp.clone()), torch.ones(1000))
    assert_same_bits(sb.rl.kl_k3(logp, logp.clone()), torch.zeros(1000))


def test_k3_is_never_negative_and_keeps_its_digits():
    logp = -torch.rand(10_000) * 20
    reference = logp + torch.randn(10_000) * 10.0 ** torch.randint(-7, 2, (10_000,))
    kl = sb.rl.kl_k3(logp, reference)
    d = (reference - logp).double()
    near = d.abs() < 1e-3
    assert (kl >= 0).all()
    # d^2/2 (1 + d/3 + d^2/12) up to d^5/120: 1e-12 of it; one rounding to float32 is 2^-24.
    series = d**2 / 2 * (1 + d / 3 + d**2 / 12)
    assert ((kl - series).abs() <= series * 2**-23.9)[near & (d != 0)].all()


def test_the_clipped_loss_is_the_formula():
    d = torch.tensor([0.0, 0.1, 0.5, -0.1, -0.5, 3.0, -3.0])
    for advantage in (2.0, -1.5, 0.0):
        advantages = torch.full_like(d, advantage)
        logp = d.clone().requires_grad_()
        loss = sb.rl.clipped_ratio_loss(logp, torch.zeros_like(d), advantages, low=0.2, high=0.3)
        ratio = sb.rl.ratio(d, torch.zeros_like(d))
        expected = -torch.minimum(ratio * advantages, ratio.clamp(1 - 0.2, 1 + 0.3) * advantages)
        assert torch.equal(loss, expected)
        (grad,) = torch.autograd.grad(loss.sum(), logp)
        clipped = (ratio > 1.3) if advantage >= 0 else (ratio < 0.8)
        assert torch.equal(grad, torch.where(clipped, 0.0, -advantages * ratio))


def test_nan_and_infinite_ratios_show():
    one = torch.ones(3)
    logp, old = torch.tensor([NAN, 200.0, -INF]), torch.zeros(3)
    assert sb.rl.ratio(logp, old).tolist()[1:] == [INF, 0.0]
    for sign in (1.0, -1.0):
        loss = sb.rl.clipped_ratio_loss(logp, old, sign * one)
        assert loss[0].isnan()
        assert loss[1].item() == (INF if sign < 0 else pytest.approx(-1.2, rel=1e-6))


@pytest.mark.parametrize("dtype", REAL)
@pytest.mark.parametrize("terms", [0, 1, 2])
def test_exponentials_have_the_bits_of_the_contract_page(dtype, terms):
    x = arguments(dtype)
    x = x[x.abs() < 700]
    page = torch.tensor([exact.exp_tail(v, terms) for v in x.tolist()], dtype=torch.float64)
    assert_same_bits(exp_tail(x, terms), page.to(dtype))


# Recorded with contract exp.v1: bits of ratio, clipped_ratio_loss and kl_k3.
GOLDEN = {
    torch.float32: (
        "3fe1db5a 3f16c9f3 4125fe26 3f258740",
        "3e4136a6 bf33c2e0 bfc7ba00 bf025ea6",
        "3e09d50c 3e2c7be0 3fb7c680 3de25c82",
    ),
    torch.float64: (
        "3ffc3b6b40aa2106 3fe2d93e53f28585 4024bfc4b6e67577 3fe4b0e7fbf3b261",
        "3fc826d4c0518a40 bfe6785bfdb3ae8c bff8f74000000000 bfe04bd4b5cfcf5e",
        "3fc13aa17282675c 3fc58f7bf794f358 3ff6f8cff8fefdea 3fbc4b904789e2b0",
    ),
}


@pytest.mark.parametrize("dtype", REAL)
def test_golden(dtype):
    numbers = torch.tensor(exact.integers(12, 7)).view(3, 4) % 16384
    logp, old, advantages = -(numbers / 4096).to(dtype)
    found = (
        sb.rl.ratio(logp, old),
        sb.rl.clipped_ratio_loss(logp, old, advantages + 2, low=0.25, high=0.25),
        sb.rl.kl_k3(logp, old),
    )
    width = torch.finfo(dtype).bits
    digits = (" ".join(f"{n % 2**width:0{width // 4}x}" for n in bits(f).tolist()) for f in found)
    assert tuple(digits) == GOLDEN[dtype]


@pytest.mark.parametrize("call", [sb.rl.ratio, sb.rl.kl_k3, sb.rl.clipped_ratio_loss])
def test_refusals(call):
    x = torch.zeros(3)
    rest = (x,) if call is sb.rl.clipped_ratio_loss else ()
    second = "reference_logp" if call is sb.rl.kl_k3 else "old_logp"
    for first, other, error, message in (
        ([0.0], x, TypeError, "logp: is a list; must be a torch.Tensor"),
        (x.bfloat16(), x, TypeError, "logp: is bfloat16; may be float32 or float64"),
        (x, x.double(), TypeError, f"{second}: is float64 but logp is float32; operands of one call"),
        (x, x[:2], ValueError, rf"{second}: has shape \[2\]; must be \[3\], that of logp"),
        (x, x.to("meta"), ValueError, f"{second}: is on meta but logp is on cpu"),
    ):
        with pytest.raises(error, match=message):
            call(first, other, *rest)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"low": 1.5}, ValueError, "low: is 1.5; must be 0 to 1"),
        ({"low": NAN}, ValueError, "low: is nan; must be 0 to 1"),
        ({"high": -0.1}, ValueError, r"high: is -0.1; must be 0 to 3\.4028235e\+38, the largest float32"),
        ({"high": 1e300}, ValueError, r"high: is 1e\+300; must be 0 to 3\.4028235e\+38, the largest float32"),
        ({"high": INF}, ValueError, "high: is inf; must be 0 to 3"),
        ({"high": NAN}, ValueError, "high: is nan; must be 0 to 3"),
        ({"high": 10**400}, ValueError, "high: is 1000"),
        ({"high": "0.2"}, TypeError, "high: is a str; must be a number"),
    ],
)
def test_refused_bounds(options, error, message):
    x = torch.zeros(3)
    with pytest.raises(error, match=message):
        sb.rl.clipped_ratio_loss(x, x, x, **options)


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 89.0), (torch.float64, 710.0)])
def test_the_bound_leaves_no_gradient_where_the_ratio_is_infinite(dtype, far):
    logp = torch.tensor([far, math.inf, far], dtype=dtype, requires_grad=True)
    old, advantages = torch.zeros(3, dtype=dtype), torch.tensor([1.0, 1.0, -1.0], dtype=dtype)
    loss = sb.rl.clipped_ratio_loss(logp, old, advantages)
    (gradient,) = torch.autograd.grad(loss, logp, torch.ones_like(loss))
    assert gradient.tolist() == [0.0, 0.0, math.inf] and not gradient.signbit().any()
    assert loss.tolist() == [-torch.full((), 1.2, dtype=dtype).item()] * 2 + [math.inf]


@pytest.mark.parametrize("dtype", REAL)
def test_a_bound_may_be_as_far_as_the_dtype_reaches(dtype):
    logp = torch.tensor([0.0, 80.0], dtype=dtype)
    for high in (torch.finfo(dtype).max, 10**30):
        loss = sb.rl.clipped_ratio_loss(logp, torch.zeros_like(logp), torch.ones_like(logp), high=high)
        assert_same_bits(loss, -sb.rl.ratio(logp, torch.zeros_like(logp)).clamp(max=high + 1.0))
