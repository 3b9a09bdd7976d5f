"""Derivatives of every order and every torch.func transform, against PyTorch compositions in float64."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import samebits as sb
from support import assert_same_bits

WEIGHTS = torch.tensor([0.7, -1.3, 0.4], dtype=torch.float64)


def reference(logits, targets, temperature=1.0):
    """(logp, lse, entropy); a row with an invalid id gives zeros without a derivative."""
    z = logits / temperature
    log_p = z.log_softmax(-1)
    valid = (targets >= 0) & (targets < logits.shape[-1])
    ids = targets.clamp(0, logits.shape[-1] - 1).unsqueeze(-1)
    values = log_p.gather(-1, ids).squeeze(-1), z.logsumexp(-1), -(log_p.exp() * log_p).sum(-1)
    return tuple(torch.where(valid, v, 0.0) for v in values)


def ours(logits, targets, temperature=1.0):
    """The same from samebits; the -inf of an invalid row's lse is made 0 as well."""
    values = sb.logp(logits, targets, temperature=temperature, return_lse=True, return_entropy=True)
    return values.logp, torch.where(values.lse.isinf(), 0.0, values.lse), values.entropy


@pytest.fixture
def call():
    """(logits [3, 5] float64, targets with one invalid id)."""
    return torch.randn(3, 5, dtype=torch.float64), torch.tensor([1, 4, -1])


def total(function, targets, outputs):
    """A scalar of the logits that weighs every row and the outputs asked for."""

    def scalar(logits):
        values = function(logits, targets, 0.8)
        return sum((values[i] * WEIGHTS).sum() * (i + 1) for i in outputs)

    return scalar


NESTINGS = {
    "grad": grad,
    "hessian": hessian,
    "reverse over reverse": lambda f: jacrev(jacrev(f)),
    "forward over forward": lambda f: jacfwd(jacfwd(f)),
    "reverse over forward": lambda f: jacrev(jacfwd(f)),
    "forward over reverse over forward": lambda f: jacfwd(jacrev(jacfwd(f))),
    "forward thrice": lambda f: jacfwd(jacfwd(jacfwd(f))),
    "reverse thrice": lambda f: jacrev(jacrev(jacrev(f))),
}


@pytest.mark.parametrize("outputs", [(0,), (1,), (2,), (0, 1, 2)], ids=["logp", "lse", "entropy", "all"])
@pytest.mark.parametrize("nesting", NESTINGS)
def test_a26_nested_transforms_are_those_of_the_reference(call, nesting, outputs):
    logits, targets = call
    transform = NESTINGS[nesting]
    actual = transform(total(ours, targets, outputs))(logits)
    expected = transform(total(reference, targets, outputs))(logits)
    # Terms are at most about 10; a few dozen float64 roundings of them.
    assert (actual - expected).abs().max() < 1e-13


@pytest.mark.parametrize("recording", [True, False])
def test_jvp_equals_the_reference_also_inside_no_grad(call, recording):
    logits, targets = call
    direction = torch.randn_like(logits)
    with torch.set_grad_enabled(recording):
        actual = jvp(total(ours, targets, (0, 1, 2)), (logits,), (direction,))
    expected = jvp(total(reference, targets, (0, 1, 2)), (logits,), (direction,))
    for one, other in zip(actual, expected, strict=True):
        assert (one - other).abs().max() < 1e-14


def test_dual_tensors_carry_tangents_through_forward_and_backward(call):
    logits, targets = call
    direction = torch.randn_like(logits)

    def run(function):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(logits.clone().requires_grad_(), direction)
            value = total(function, targets, (0, 1, 2))(dual)
            (gradient,) = torch.autograd.grad(value, dual)
            return forward_ad.unpack_dual(value).tangent, forward_ad.unpack_dual(gradient).tangent

    for one, other in zip(run(ours), run(reference), strict=True):
        assert (one - other).abs().max() < 1e-14


def test_gradcheck_and_gradgradcheck(call):
    logits, targets = call
    leaf = logits.requires_grad_()
    assert torch.autograd.gradcheck(
        total(ours, targets, (0, 1, 2)), leaf, check_forward_ad=True, check_batched_grad=True,
        check_batched_forward_grad=True,
    )  # fmt: skip
    assert torch.autograd.gradgradcheck(
        total(ours, targets, (0, 1, 2)), leaf, check_fwd_over_rev=True, check_rev_over_rev=True
    )


def test_a27_hessian_of_two_equal_logits():
    logits, target = torch.zeros(2, dtype=torch.float64), torch.tensor(0)
    expected = torch.tensor([[-0.25, 0.25], [0.25, -0.25]], dtype=torch.float64)
    for of in (hessian, lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f))):
        assert torch.equal(of(lambda x: sb.logp(x, target))(logits), expected)
    leaf = logits.requires_grad_()
    assert torch.equal(torch.autograd.functional.hessian(lambda x: sb.logp(x, target), leaf), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_first_order_bits_are_the_fused_ones_on_every_path(dtype):
    logits, targets = torch.randn(4, 300).to(dtype), torch.tensor([3, -1, 299, 128])

    def scalar(x):
        values = sb.logp(x, targets, return_lse=True, return_entropy=True)
        return (values.logp * 3 - values.entropy).sum() + values.lse[0]

    leaf = logits.clone().requires_grad_()
    (expected,) = torch.autograd.grad(scalar(leaf), leaf)
    (kept,) = torch.autograd.grad(scalar(leaf), leaf, create_graph=True)
    assert_same_bits(kept, expected, "create_graph")
    assert_same_bits(grad(scalar)(logits), expected, "grad")
    assert_same_bits(
        vjp(scalar, logits)[1](torch.ones((), dtype=kept.dtype).to(scalar(logits).dtype))[0], expected
    )
    assert_same_bits(jacrev(scalar)(logits), expected, "jacrev")
    assert_same_bits(jvp(grad(scalar), (logits,), (logits,))[0], expected, "below a tangent")
    assert_same_bits(vmap(grad(lambda x: scalar(x)))(logits[None])[0], expected, "vmap")
    assert_same_bits(torch.func.grad_and_value(scalar)(logits)[0], expected, "grad_and_value")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rows_that_take_no_part_have_zero_derivatives_whatever_stands_there(dtype):
    logits = torch.randn(5, 40, dtype=dtype)
    logits[1] = torch.nan
    logits[3, 7] = torch.inf
    targets = torch.tensor([3, 4, -7, 5, 39])
    rows = torch.tensor([0, 4, 2, 0, 99, -3])  # 1 and 3 are left out, 2 has an invalid id
    direction = torch.randn(5, 40, dtype=dtype)
    direction[1:4] = torch.inf
    third = torch.full((5, 40), torch.nan, dtype=dtype)
    third[[0, 4]] = torch.randn(2, 40, dtype=dtype)

    def scalar(x):
        values = sb.logp(x, targets, rows=rows, return_lse=True, return_entropy=True)
        return (values.logp + values.entropy).sum() + values.lse[[0, 4]].sum()

    def alone(x):
        values = sb.logp(x, targets[[0, 4]], return_lse=True, return_entropy=True)
        return (values.logp + values.entropy).sum() + values.lse.sum()

    def derivatives(f, x, second, last):
        first = grad(f)
        curved = vjp(first, x)[1](second)[0]
        forward = jvp(first, (x,), (second,))[1]
        fourth = vjp(lambda y: vjp(first, y)[1](second)[0], x)[1](last)[0]
        return jvp(f, (x,), (second,))[1], first(x), curved, forward, fourth

    actual = derivatives(scalar, logits, direction, third)
    expected = derivatives(alone, logits[[0, 4]], direction[[0, 4]], third[[0, 4]])
    assert_same_bits(actual[0], expected[0], "jvp")
    for one, other in zip(actual[1:], expected[1:], strict=True):
        assert_same_bits(one[[0, 4]], other)
        assert_same_bits(one[1:4], torch.zeros(3, 40, dtype=dtype))


def test_padding_columns_have_zero_derivatives_whatever_stands_there():
    logits, targets = torch.randn(3, 50), torch.tensor([0, 7, 39])
    logits[:, 40:] = torch.nan
    direction = torch.randn(3, 50)
    direction[:, 40:] = torch.inf

    def scalar(x):
        values = sb.logp(x, targets, vocab_size=40, return_entropy=True)
        return (values.logp + values.entropy).sum()

    def narrow(x):
        values = sb.logp(x, targets, return_entropy=True)
        return (values.logp + values.entropy).sum()

    for of in (lambda f, x, v: vjp(grad(f), x)[1](v)[0], lambda f, x, v: jvp(grad(f), (x,), (v,))[1]):
        curved = of(scalar, logits, direction)
        assert_same_bits(curved[:, :40], of(narrow, logits[:, :40], direction[:, :40]))
        assert_same_bits(curved[:, 40:], torch.zeros(3, 10))
    assert_same_bits(
        jvp(scalar, (logits,), (direction,))[1], jvp(narrow, (logits[:, :40],), (direction[:, :40],))[1]
    )


def test_masked_logits_have_finite_derivatives_of_every_order():
    logits, targets = torch.randn(2, 9, dtype=torch.float64), torch.tensor([0, 8])
    logits[:, 3:6] = -torch.inf
    kept = [0, 1, 2, 6, 7, 8]
    shown, ids = logits[:, kept], torch.tensor([0, 5])
    for outputs in ((0,), (1,), (2,)):
        wide, dense = total_rows(targets, outputs), total_rows(ids, outputs)
        for of in (grad, lambda f: jacfwd(jacrev(f)), lambda f: jacrev(jacfwd(jacrev(f)))):
            actual, expected = of(wide)(logits), of(dense)(shown)
            for axis in range(1, actual.dim(), 2):
                actual = actual.index_select(axis, torch.tensor(kept))
            assert (actual - expected).abs().max() < 1e-13


def total_rows(targets, outputs):
    """The plain sum of outputs of samebits."""
    return lambda x: sum(ours(x, targets)[i].sum() for i in outputs)


def test_per_row_temperatures_scale_every_order(call):
    logits, targets = call
    tau = torch.tensor([0.5, 2.0, 1.5], dtype=torch.float64)

    def actual(x):
        return (ours(x, targets, tau)[0] * WEIGHTS).sum()

    def expected(x):
        return (reference(x / tau.unsqueeze(-1), targets)[0] * WEIGHTS).sum()

    for of in (grad, hessian, lambda f: jacfwd(hessian(f)), lambda f: jacrev(jacrev(f))):
        assert (of(actual)(logits) - of(expected)(logits)).abs().max() < 1e-13


def test_precision_fp64_differentiates_in_float64():
    logits, targets = torch.randn(3, 60), torch.tensor([1, 2, 59])
    direction = torch.randn(3, 60)
    wide, wide_direction = logits.double(), direction.double()

    def forward(x, v):
        return jvp(lambda y: sb.logp(y, targets, precision="fp64"), (x,), (v,))

    for one, other in zip(forward(logits, direction), forward(wide, wide_direction), strict=True):
        assert_same_bits(one, other)
    curved = jvp(grad(lambda y: sb.logp(y, targets, precision="fp64").sum()), (logits,), (direction,))[1]
    exact = jvp(grad(lambda y: sb.logp(y, targets).sum()), (wide,), (wide_direction,))[1]
    assert_same_bits(curved, exact.float())


def test_checkpoint_retained_graph_and_second_backward_agree(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    value = sb.logp(leaf, targets, return_entropy=True)
    (first,) = torch.autograd.grad(value.logp.sum() + value.entropy.sum(), leaf, create_graph=True)
    (once,) = torch.autograd.grad(first.square().sum(), leaf, retain_graph=True)
    (again,) = torch.autograd.grad(first.square().sum(), leaf)
    assert_same_bits(again, once)

    def block(x):
        inner = sb.logp(x, targets, return_entropy=True)
        return inner.logp.sum() + inner.entropy.sum()

    checkpointed = torch.utils.checkpoint.checkpoint(block, leaf, use_reentrant=False)
    (kept,) = torch.autograd.grad(checkpointed, leaf, create_graph=True)
    assert_same_bits(torch.autograd.grad(kept.square().sum(), leaf)[0], once)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_no_bits_of_second_derivatives(dtype):
    logits, targets = torch.randn(3, 70), torch.tensor([0, 1, 69])

    def run():
        leaf = logits.clone().requires_grad_()
        values = sb.logp(leaf, targets, return_entropy=True)
        (first,) = torch.autograd.grad((values.logp + values.entropy).sum(), leaf, create_graph=True)
        return torch.autograd.grad(first.square().sum(), leaf)[0]

    expected = run()
    with torch.autocast("cpu", dtype=dtype):
        assert_same_bits(run(), expected)


def test_inference_mode_and_no_grad_give_the_same_values_without_history(call):
    logits, targets = call
    expected = sb.logp(logits.clone().requires_grad_(), targets).detach()
    with torch.inference_mode():
        assert_same_bits(sb.logp(logits, targets), expected)
    with torch.no_grad():
        assert_same_bits(sb.logp(logits.clone().requires_grad_(), targets), expected)


def test_captured_logits_are_constants_of_a_transform(call):
    logits, targets = call
    other = torch.randn(3, dtype=torch.float64)
    gradient = grad(lambda w: (sb.logp(logits, targets) * w).sum())(other)
    assert_same_bits(gradient, sb.logp(logits, targets))
    leaf = logits.clone().requires_grad_()
    value = vmap(lambda w: (sb.logp(leaf, targets) * w).sum())(other.repeat(2, 1))
    assert torch.autograd.grad(value.sum(), leaf)[0].abs().sum() > 0
