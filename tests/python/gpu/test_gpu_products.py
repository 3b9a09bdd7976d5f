"""sb.matmul and sb.linear on a GPU: the CPU's bits, gradients included, through every engine."""

import pytest
import torch
from torch.func import vmap

import samebits as sb
from support import DTYPES, assert_same_bits

GPU = "cuda:0"
HALF = (torch.bfloat16, torch.float16)


def made(*shape, dtype, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def gradients(call, *tensors, device):
    """Result and gradients of all operands, as CPU tensors, for one upstream on every device."""
    leaves = [t.to(device).requires_grad_() for t in tensors]
    result = call(*leaves)
    upstream = made(*result.shape, dtype=result.dtype, seed=9).to(device)
    return [t.cpu() for t in (result.detach(), *torch.autograd.grad(result, leaves, upstream))]


def assert_equal_on_both(call, *tensors):
    on_cpu, on_gpu = (gradients(call, *tensors, device=device) for device in ("cpu", GPU))
    for index, (value, expected) in enumerate(zip(on_gpu, on_cpu, strict=True)):
        assert_same_bits(value, expected, f"output {index}")


@pytest.mark.parametrize("contract", ["auto", "fma"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 64, 8), (7, 2688, 33), (130, 72, 257), (255, 129, 64), (64, 8200, 40), (3, 5, 1), (0, 8, 4)]
)
def test_linear_and_its_gradients_equal_the_cpu(dtype, shape, contract):
    rows, depth, columns = shape
    x, weight = made(rows, depth, dtype=dtype), made(columns, depth, dtype=dtype, seed=1)
    bias = made(columns, dtype=dtype, seed=2)
    assert_equal_on_both(lambda *t: sb.linear(*t, contract=contract), x, weight, bias)
    if dtype in HALF:
        assert_equal_on_both(
            lambda *t: sb.matmul(t[0], t[1].t(), contract=contract, out_dtype=torch.float32), x, weight
        )


@pytest.mark.parametrize("backend", ["mma", "cublaslt"])
@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_tensor_core_engines_by_name_give_the_same_bits(dtype, backend):
    for rows, depth, columns in ((1, 2688, 1024), (200, 16400, 136), (1000, 512, 512)):
        a, b = made(rows, depth, dtype=dtype).to(GPU), made(columns, depth, dtype=dtype, seed=1).to(GPU)
        for right in (b.t(), b.t().contiguous()):
            for out_dtype in (None, torch.float32):
                expected = sb.matmul(a, right, out_dtype=out_dtype)
                assert_same_bits(sb.matmul(a, right, out_dtype=out_dtype, backend=backend), expected)


def test_strides_equal_the_contiguous_clone():
    base = made(40, 3, 80, dtype=torch.bfloat16).to(GPU)
    b = made(80, 56, dtype=torch.bfloat16, seed=1).to(GPU)
    for a in (base, base.transpose(0, 1), base[::2], base[:, :1].expand(40, 3, 80), base.flip(0)):
        assert_same_bits(sb.matmul(a, b), sb.matmul(a.contiguous(), b))
    wide = made(81, 57, dtype=torch.bfloat16, seed=1).to(GPU)
    assert_same_bits(sb.matmul(base, wide[1:, 1:]), sb.matmul(base, wide[1:, 1:].contiguous()))


def test_rows_do_not_see_the_batch():
    weight = made(4096, 2688, dtype=torch.bfloat16).to(GPU)
    hidden = made(4096, 2688, dtype=torch.bfloat16, seed=1).to(GPU)
    whole = sb.linear(hidden, weight, out_dtype=torch.float32)
    for rows in (1, 2, 7, 64, 255, 257, 1024):
        for first in (0, 3000):
            part = sb.linear(hidden[first : first + rows], weight, out_dtype=torch.float32)
            assert_same_bits(part, whole[first : first + rows])


def test_a_captured_product_replays():
    a, b = made(64, 9000, dtype=torch.bfloat16).to(GPU), made(9000, 64, dtype=torch.bfloat16, seed=1).to(GPU)
    for backend in (None, "mma", "cublaslt"):
        expected = sb.matmul(a, b, backend=backend)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = sb.matmul(a, b, backend=backend)
        value.zero_()
        graph.replay()
        assert_same_bits(value, expected)


def test_vmap_equals_the_loop():
    a, b = made(5, 6, 32, dtype=torch.bfloat16).to(GPU), made(5, 32, 24, dtype=torch.bfloat16, seed=1).to(GPU)
    assert_same_bits(vmap(sb.matmul)(a, b), torch.stack([sb.matmul(x, y) for x, y in zip(a, b, strict=True)]))
    assert_same_bits(vmap(lambda x: sb.matmul(x, b[0]))(a), torch.stack([sb.matmul(x, b[0]) for x in a]))


def test_errors_are_those_of_the_cpu():
    a, b = made(4, 8, dtype=torch.bfloat16).to(GPU), made(8, 8, dtype=torch.bfloat16).to(GPU)
    with pytest.raises(RuntimeError, match=r"^backend: is 'avx2' .*may be 'auto', 'cuda', "):
        sb.matmul(a, b, backend="avx2")
    with pytest.raises(RuntimeError, match=r"^backend: is 'simt', which cannot run this product: "):
        sb.matmul(a, b, backend="simt")
    with pytest.raises(RuntimeError, match=r"^backend: is 'cublaslt'.*: a has a stride of 9 elements"):
        sb.matmul(made(4, 9, dtype=torch.bfloat16).to(GPU)[:, :8], b, backend="cublaslt")
    with pytest.raises(RuntimeError, match=r"^backend: is 'cublaslt'.*: there are 7 columns; it takes mult"):
        sb.matmul(a, b[:, :7], backend="cublaslt")
    with pytest.raises(ValueError, match=r"^contract: is 'tc16' with float32"):
        sb.matmul(a.float(), b.float(), contract="tc16")


def test_plans_say_which_engines_and_what_the_probe_found():
    plan = sb.plan("matmul", dtype=torch.bfloat16, device=GPU)
    assert plan.can_run and plan.backend == "cuda" and plan.contract == "tc16.v1"
    assert plan.provenance["device_probe"].startswith("passed: ")
    assert plan.provenance["engines"]["cublaslt"] == "runs only where it is asked for by name"
    assert plan.provenance["engines"][plan.provenance["gemm_backend"]] == "taken"
    sb.require_same(plan, sb.plan("matmul", dtype=torch.bfloat16))
    named = sb.plan("matmul", dtype=torch.bfloat16, device=GPU, backend="cublaslt")
    assert named.can_run and named.provenance["gemm_backend"] == "cublaslt"
    sb.require_same(plan, named)
    plain = sb.plan("matmul", dtype=torch.float32, device=GPU)
    assert plain.can_run and "device_probe" not in plain.provenance
    refused = sb.plan("matmul", dtype=torch.float32, device=GPU, backend="mma")
    assert not refused.can_run and "contract='tc16' alone" in refused.refusals[0]
