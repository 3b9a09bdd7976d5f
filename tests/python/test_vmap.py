"""vmap is one call for all samples, and its bits are those of the loop."""

import pytest
import torch
from torch.func import grad, jvp, vjp, vmap

import samebits as sb
from support import DTYPES, assert_same_bits

SAMPLES, ROWS, VOCAB = 4, 3, 130


@pytest.fixture(params=DTYPES, ids=str)
def batch(request):
    """(logits [samples, rows, vocab], targets, directions)."""
    logits = torch.randn(SAMPLES, ROWS, VOCAB).to(request.param)
    return logits, torch.randint(-1, VOCAB, (SAMPLES, ROWS)), torch.randn_like(logits)


def logp(logits, targets):
    return sb.logp(logits, targets, temperature=0.7)


def scalar(logits, targets):
    values = sb.logp(logits, targets, temperature=0.7, return_entropy=True)
    return (values.logp - 2 * values.entropy).sum()


def product_forward(logits, targets, direction):
    return jvp(lambda x: grad(scalar)(x, targets), (logits,), (direction,))[1]


def product_reverse(logits, targets, direction):
    return vjp(lambda x: grad(scalar)(x, targets), logits)[1](direction)[0]


def loop(function, *samples):
    return torch.stack([function(*sample) for sample in zip(*samples, strict=True)])


@pytest.mark.parametrize("function", [logp, grad(scalar)], ids=["logp", "grad"])
def test_a26_a_mapped_call_is_the_loop_for_every_in_dims(batch, function):
    logits, targets, _ = batch
    expected = loop(function, logits, targets)
    assert_same_bits(vmap(function)(logits, targets), expected)
    assert_same_bits(vmap(function, (1, 1))(logits.movedim(0, 1), targets.t()), expected, "axis 1")
    assert_same_bits(vmap(function, (2, 0))(logits.movedim(0, 2), targets), expected, "last axis")
    assert_same_bits(vmap(function, (-1, -1))(logits.movedim(0, 2), targets.t()), expected, "from the end")
    shared_ids = loop(function, logits, targets[:1].expand(SAMPLES, ROWS))
    assert_same_bits(vmap(function, (0, None))(logits, targets[0]), shared_ids, "one set of ids")
    shared = loop(function, logits[:1].expand_as(logits), targets)
    assert_same_bits(vmap(function, (None, 0))(logits[0], targets), shared, "one set of logits")


def test_a26_values_of_a_mapped_call_are_those_of_the_batched_call(batch):
    logits, targets, _ = batch
    assert_same_bits(vmap(logp)(logits, targets), logp(logits, targets))
    assert_same_bits(vmap(vmap(logp))(logits, targets), logp(logits, targets), "down to single rows")
    mapped = vmap(lambda x, t: sb.logp(x, t, return_lse=True, return_entropy=True))(logits, targets)
    whole = sb.logp(logits, targets, return_lse=True, return_entropy=True)
    for one, other in zip(mapped, whole, strict=True):
        assert_same_bits(one, other)


@pytest.mark.parametrize("function", [product_forward, product_reverse], ids=["forward", "reverse"])
def test_second_order_products_are_the_loop_and_the_batched_call(batch, function):
    logits, targets, directions = batch
    expected = loop(function, logits, targets, directions)
    assert_same_bits(vmap(function)(logits, targets, directions), expected)
    assert_same_bits(function(logits, targets, directions), expected, "one call")
    rows = vmap(vmap(function))(logits, targets, directions)
    assert_same_bits(rows, expected, "row by row")
    many = vmap(function, (None, None, 0))(logits[0], targets[0], directions)
    assert_same_bits(many, loop(lambda v: function(logits[0], targets[0], v), directions), "many directions")


def test_row_lists_count_within_a_sample(batch):
    logits, targets, _ = batch
    shared = torch.tensor([0, 2, 2, 99, -4])
    mapped = torch.randint(-1, ROWS + 1, (SAMPLES, 2))

    def selected(x, t, rows):
        return sb.logp(x, t, rows=rows)

    def selected_grad(x, t, rows):
        return grad(lambda y: sb.logp(y, t, rows=rows).sum())(x)

    for function in (selected, selected_grad):
        same = shared.expand(SAMPLES, 5)
        assert_same_bits(
            vmap(function, (0, 0, None))(logits, targets, shared), loop(function, logits, targets, same)
        )
        assert_same_bits(vmap(function)(logits, targets, mapped), loop(function, logits, targets, mapped))


def test_temperatures_may_be_mapped(batch):
    logits, targets, directions = batch
    tau = torch.rand(SAMPLES, ROWS) + 0.5

    def warm(x, t, temperature):
        return sb.logp(x, t, temperature=temperature)

    def curved(x, t, temperature, v):
        return jvp(grad(lambda y: warm(y, t, temperature).sum()), (x,), (v,))[1]

    assert_same_bits(vmap(warm)(logits, targets, tau), warm(logits, targets, tau))
    assert_same_bits(vmap(curved)(logits, targets, tau, directions), curved(logits, targets, tau, directions))
    each = tau[:, :1]
    assert_same_bits(vmap(warm)(logits, targets, each[:, 0]), warm(logits, targets, each))


def test_batched_upstreams_of_a_recorded_call_are_the_loop():
    logits = torch.randn(4, 90, requires_grad=True)
    targets = torch.tensor([0, 5, -1, 89])
    for options in ({}, {"rows": torch.tensor([0, 3, 2])}, {"vocab_size": 60}):
        values = sb.logp(logits, targets, **options)
        upstreams = torch.randn(5, 4)
        (batched,) = torch.autograd.grad(values, logits, upstreams, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(values, logits, u, retain_graph=True)[0] for u in upstreams]
        assert_same_bits(batched, torch.stack(each))


def test_vmap_below_a_gradient_is_recorded():
    logits, targets = torch.randn(4, 3, 50), torch.randint(0, 50, (4, 3))
    expected = grad(lambda x: sb.logp(x, targets).sum())(logits)
    assert_same_bits(grad(lambda x: vmap(sb.logp)(x, targets).sum())(logits), expected)
    leaf = logits.clone().requires_grad_()
    assert_same_bits(torch.autograd.grad(vmap(sb.logp)(leaf, targets).sum(), leaf)[0], expected, "eager")
    entropies = vmap(lambda x, t: sb.logp(x, t, return_entropy=True).entropy)(leaf, targets)
    assert entropies.grad_fn is not None
    tangent = jvp(lambda x: vmap(sb.logp)(x, targets), (logits,), (logits,))[1]
    assert_same_bits(tangent, jvp(lambda x: sb.logp(x, targets), (logits,), (logits,))[1])


def test_more_axes_than_an_operator_takes_are_made_one():
    logits, targets = torch.randn(2, 1, 2, 1, 2, 3, 20), torch.randint(0, 20, (2, 1, 2, 1, 2, 3))
    directions = torch.randn(2, 2, 2, *logits.shape)

    def curved(v):
        return jvp(grad(lambda x: sb.logp(x, targets).sum()), (logits,), (v,))[1]

    nested = vmap(vmap(vmap(curved)))(directions)
    for index in ((0, 0, 0), (1, 0, 1)):
        assert_same_bits(nested[index], curved(directions[index]))


def test_an_empty_batch_of_rows_has_empty_derivatives():
    logits, targets = torch.randn(3, 0, 7), torch.empty(3, 0, dtype=torch.long)
    assert vmap(grad(scalar))(logits, targets).shape == (3, 0, 7)
    assert vmap(product_forward)(logits, targets, logits).shape == (3, 0, 7)


def test_errors_inside_vmap_name_the_argument():
    with pytest.raises(ValueError, match=r"^targets: has id 9 at row 4"):
        vmap(lambda x, t: sb.logp(x, t, on_invalid="raise"))(
            torch.randn(3, 2, 5), torch.tensor([[0, 1], [2, 3], [9, 0]])
        )
    with pytest.raises(
        ValueError, match=r"^targets: has shape \[4, 2\]; must have the leading shape \[4, 3\]"
    ):
        vmap(sb.logp)(torch.randn(4, 3, 5), torch.zeros(4, 2, dtype=torch.long))


def test_nine_nested_maps_of_a_row_are_one_call():
    logits = torch.randn(*[1, 2] * 4, 2, 20)
    targets = torch.randint(0, 20, logits.shape[:-1])
    values, gradient = sb.logp, grad(sb.logp)
    for _ in range(9):
        values, gradient = vmap(values), vmap(gradient)
    flat, ids = logits.view(-1, 20), targets.view(-1)
    assert_same_bits(values(logits, targets), sb.logp(flat, ids).view(targets.shape))
    assert_same_bits(
        gradient(logits, targets), grad(lambda x: sb.logp(x, ids).sum())(flat).view(logits.shape)
    )


def test_an_empty_batch_of_samples():
    logits, targets = torch.randn(0, 3, 20), torch.zeros(0, 3, dtype=torch.long)
    assert vmap(sb.logp)(logits, targets).shape == (0, 3)
    assert vmap(sb.matmul)(torch.randn(0, 3, 4), torch.randn(0, 4, 5)).shape == (0, 3, 5)
