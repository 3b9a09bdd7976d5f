"""Gradients of matmul and linear: products under the same contract, to any order."""

import pytest
import torch
from torch.func import hessian, jacfwd, vmap

import samebits as sb
from support import assert_same_bits


def test_gradcheck_and_gradgradcheck():
    shapes = ((4, 5), (3, 5), (3,))
    leaves = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def bent(x, weight, bias):
        return sb.linear(x, weight, bias).sin()

    assert torch.autograd.gradcheck(
        bent, leaves, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(bent, leaves, check_fwd_over_rev=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_gradients_are_products_of_the_contract(dtype):
    a = torch.randn(6, 5, dtype=dtype, requires_grad=True)
    b = torch.randn(5, 7, dtype=dtype, requires_grad=True)
    upstream = torch.randn(6, 7, dtype=dtype)
    to_a, to_b = torch.autograd.grad(sb.matmul(a, b), (a, b), upstream)
    assert_same_bits(to_a, sb.matmul(upstream, b.detach().t()))
    assert_same_bits(to_b, sb.matmul(a.detach().t(), upstream))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_16_bit_operands_get_gradients_of_their_dtype(dtype):
    a, b = (torch.randn(4, 4).to(dtype).requires_grad_() for _ in range(2))
    product = sb.matmul(a, b, contract="fma", out_dtype=torch.float32)
    to_a, to_b = torch.autograd.grad(product, (a, b), torch.randn(4, 4))
    assert to_a.dtype == to_b.dtype == dtype


def test_a_frozen_operand_gets_no_gradient():
    x, weight = torch.randn(4, 5), torch.randn(3, 5, requires_grad=True)
    bias = torch.randn(3, requires_grad=True)
    sb.linear(x, weight, bias).sum().backward()
    assert x.grad is None and weight.grad is not None
    assert_same_bits(bias.grad, torch.full((3,), 4.0))


def test_nested_transforms_are_those_of_torch():
    x, weight, bias = (torch.randn(s, dtype=torch.float64) for s in ((4, 5), (3, 5), (3,)))

    def of(linear):
        return lambda *operands: linear(*operands).sin().sum()

    for argument in range(3):
        expected = hessian(of(torch.nn.functional.linear), argument)(x, weight, bias)
        for nesting in (hessian, lambda f, n: jacfwd(jacfwd(f, n), n)):
            assert (nesting(of(sb.linear), argument)(x, weight, bias) - expected).abs().max() < 1e-13


def test_mapped_products_are_the_loop():
    a, b = torch.randn(6, 4, 5), torch.randn(6, 5, 3)
    each = torch.stack([sb.matmul(p, q) for p, q in zip(a, b, strict=True)])
    assert_same_bits(vmap(sb.matmul)(a, b), each)
    assert_same_bits(vmap(sb.matmul, (0, None))(a, b[0]), torch.stack([sb.matmul(p, b[0]) for p in a]))
    assert_same_bits(vmap(sb.matmul, (1, None))(a.movedim(0, 1), b[0]), vmap(sb.matmul, (0, None))(a, b[0]))
