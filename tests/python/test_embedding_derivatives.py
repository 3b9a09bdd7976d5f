"""Derivatives of sb.embedding: of every order, under torch.func, torch.compile, and as operators."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits

IDS = torch.tensor([[1, 2, -1], [6, 2, 7]])


def weight_of(dtype=torch.float64):
    return torch.randn(7, 5, dtype=dtype)


def test_every_order_agrees_with_differences():
    weight = weight_of().requires_grad_()

    def cubes(table):
        return sb.embedding(IDS, table, padding_idx=0, on_invalid="zero").pow(3)

    assert torch.autograd.gradcheck(cubes, weight, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(cubes, weight, check_fwd_over_rev=True, check_rev_over_rev=True)


def test_first_order_bits_are_the_same_with_and_without_a_graph():
    weight = weight_of(torch.bfloat16).requires_grad_()
    upstream = torch.randn(2, 3, 5).bfloat16()
    plain = torch.autograd.grad(sb.embedding(IDS, weight), weight, upstream)[0]
    kept = torch.autograd.grad(sb.embedding(IDS, weight), weight, upstream, create_graph=True)[0]
    assert (
        kept.grad_fn is None or not kept.requires_grad
    )  # linear: the upstream alone could be differentiated
    assert_same_bits(kept, plain)
    live = upstream.clone().requires_grad_()
    graph = torch.autograd.grad(sb.embedding(IDS, weight), weight, live, create_graph=True)[0]
    assert_same_bits(graph, plain)
    back = torch.autograd.grad(graph, live, weight.detach())[0]
    assert_same_bits(back, sb.embedding(IDS, weight.detach(), on_invalid="zero"))


def test_ids_that_take_no_part_have_no_derivative_in_any_direction():
    weight, direction = weight_of(), torch.randn(7, 5, dtype=torch.float64)

    def rows(table):
        return sb.embedding(IDS, table, padding_idx=2)

    _, moved = torch.func.jvp(rows, (weight,), (direction,))
    expected = sb.embedding(IDS, direction)
    expected[(IDS == 2) | (IDS < 0) | (IDS > 6)] = 0
    assert_same_bits(moved, expected)
    upstream = torch.randn(2, 3, 5, dtype=torch.float64)
    (pulled,) = torch.func.vjp(rows, weight)[1](upstream)
    torch.testing.assert_close((moved * upstream).sum(), (direction * pulled).sum())  # one linear map


@pytest.mark.parametrize("dims", [(0, None), (0, 1), (None, 0), (1, 2)], ids=str)
def test_vmap_equals_the_loop(dims):
    ids = torch.randint(-1, 8, (4, 4, 4))[: None if dims[0] is not None else 4]
    ids = ids if dims[0] is not None else ids[0]
    weight = torch.randn(4, 4, 4) if dims[1] is not None else torch.randn(7, 4)

    def call(i, table):
        return sb.embedding(i, table, on_invalid="zero")

    def gradient(i, table):
        return torch.func.grad(lambda t: call(i, t).square().sum())(table)

    for function in (call, gradient):
        mapped = torch.func.vmap(function, in_dims=dims)(ids, weight)
        samples = [
            (
                ids if dims[0] is None else ids.select(dims[0], k),
                weight if dims[1] is None else weight.select(dims[1], k),
            )
            for k in range(4)
        ]
        assert_same_bits(mapped, torch.stack([function(*sample) for sample in samples]))


def test_vmap_over_no_samples():
    weight = torch.randn(0, 7, 5)
    assert torch.func.vmap(lambda w: sb.embedding(IDS, w))(weight).shape == (0, 2, 3, 5)
    grads = torch.func.vmap(torch.func.grad(lambda w: sb.embedding(IDS, w).sum()))(weight)
    assert grads.shape == (0, 7, 5)


def test_jacobians_and_hessians():
    weight = weight_of()

    def cubes(table):
        return sb.embedding(IDS[:, :2], table, on_invalid="zero").pow(3).sum(-1)

    def plain(table):
        return table[IDS[:, :2]].pow(3).sum(-1)

    for transform in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian):
        torch.testing.assert_close(transform(cubes)(weight), transform(plain)(weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a28_compile_breaks_no_graph_and_keeps_the_bits(dtype):
    compiled = torch.compile(sb.embedding, fullgraph=True, backend="aot_eager")
    weight = weight_of(dtype).requires_grad_()
    for count in range(1, 5):
        ids, upstream = torch.randint(0, 7, (count,)), torch.randn(count, 5).to(dtype)
        rows = compiled(ids, weight)
        assert_same_bits(rows, weight[ids])
        expected = torch.autograd.grad(sb.embedding(ids, weight), weight, upstream)[0]
        assert_same_bits(torch.autograd.grad(rows, weight, upstream)[0], expected)


def test_operators_pass_opcheck():
    ops, ids, weight = torch.ops.samebits, IDS.clamp(0, 6), weight_of(torch.float32)
    upstream = torch.randn(2, 3, 5)
    torch.library.opcheck(ops.embedding.default, (ids, weight))
    torch.library.opcheck(ops.embedding_backward.default, (ids, upstream, 7))
    torch.library.opcheck(ops.embedding_backward_into.default, (ids, upstream, torch.zeros(7, 5)))


def test_ids_of_more_dimensions_than_an_operator_takes():
    ids = torch.randint(0, 7, (1, 2, 1, 2, 1, 2, 1, 2, 1))
    weight = weight_of().requires_grad_()
    rows = sb.embedding(ids, weight)
    assert_same_bits(rows, weight[ids])
    upstream = torch.randn(rows.shape, dtype=torch.float64)
    expected = torch.autograd.grad(sb.embedding(ids.flatten(), weight), weight, upstream.flatten(0, -2))[0]
    assert_same_bits(torch.autograd.grad(rows, weight, upstream)[0], expected)
