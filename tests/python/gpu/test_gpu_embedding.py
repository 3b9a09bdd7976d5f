"""The embedding on the GPU: the bits of the CPU, under transforms, compile, graphs and streams too."""

import pytest
import torch

import samebits as sb
from support import DTYPES, assert_nothing_waits, assert_same_bits

GPU = "cuda:0"


def inputs(count, vocab, columns, dtype, seed=0):
    """Ids with repeats and some out of range, a weight and an upstream, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(-1, vocab + 1, (count,), generator=generator)
    ids[::3] = torch.randint(0, min(vocab, 4), (ids[::3].numel(),), generator=generator)
    weight = torch.randn(vocab, columns, generator=generator).to(dtype)
    return ids, weight, torch.randn(count, columns, generator=generator).to(dtype)


def run(ids, weight, upstream, device, **options):
    """(rows, gradient of the weight), on the CPU."""
    leaf = weight.to(device).requires_grad_()
    rows = sb.embedding(ids.to(device), leaf, **options)
    (gradient,) = torch.autograd.grad(rows, leaf, upstream.to(device))
    return rows.detach().cpu(), gradient.cpu()


def assert_same_call(actual, expected):
    for value, wanted in zip(actual, expected, strict=True):
        assert_same_bits(value, wanted)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("columns", [1, 7, 64, 2688])
def test_rows_and_gradient_equal_the_cpu(dtype, columns):
    for count, vocab in ((1, 35), (257, 35), (3000, 500), (20000, 3)):
        call = inputs(count, vocab, columns, dtype)
        for options in ({}, {"padding_idx": 1, "on_invalid": "zero"}):
            assert_same_call(run(*call, GPU, **options), run(*call, "cpu", **options))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("flag", [False, True])
def test_a22_repeats_are_equal_whatever_torchs_flag_says(dtype, flag):
    torch.use_deterministic_algorithms(flag)
    try:
        for count in (1, 2063, 3072, 3073, 20000):
            call = inputs(count, 35, 64, dtype)
            expected = run(*call, "cpu")
            for _ in range(20):
                assert_same_call(run(*call, GPU), expected)
    finally:
        torch.use_deterministic_algorithms(False)


def test_one_id_a_hundred_thousand_times():
    ids, weight, upstream = inputs(100_000, 9, 2688, torch.bfloat16)
    ids[:] = 6
    rows, gradient = run(ids, weight, upstream, GPU)
    assert_same_call((rows, gradient), run(ids, weight, upstream, "cpu"))
    assert not gradient[torch.arange(9) != 6].any()
    exact = upstream.double().sum(0)
    assert ((gradient[6].double() - exact).abs() <= 2**-8 * exact.abs() + 0.05).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_an_accumulator_gets_the_sum_of_both_calls(dtype):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    calls = [inputs(700, 35, 64, dtype, seed) for seed in range(2)]
    buffers = []
    for device in ("cpu", GPU):
        leaf = calls[0][1].to(device, copy=True).requires_grad_()
        buffer = torch.full((35, 64), 0.5, dtype=wide, device=device)
        for ids, _, upstream in calls:
            rows = sb.embedding(ids.to(device), leaf, grad_accumulator=buffer)
            rows.backward(upstream.to(device))
        assert leaf.grad is None
        buffers.append(buffer.cpu())
    assert_same_bits(buffers[1], buffers[0])


def test_strides_and_shapes_equal_the_cpu():
    ids, weight, upstream = inputs(24, 35, 96, torch.bfloat16)
    grid = ids.view(2, 3, 4).transpose(0, 2)
    tall = upstream.view(2, 3, 4, 96).transpose(0, 2)
    for table in (weight, weight[:, 3:67], weight.t(), weight[::2], weight[:1].expand(35, 96)):
        columns = table.shape[1]
        wide = tall[..., :columns] if columns <= 96 else tall
        assert_same_call(run(grid, table, wide, GPU), run(grid, table, wide, "cpu"))
    assert_same_call(
        run(ids, weight, torch.ones(1, 1).to(torch.bfloat16).expand(24, 96), GPU),
        run(ids, weight, torch.ones(1, 1).to(torch.bfloat16).expand(24, 96), "cpu"),
    )


def test_transforms_equal_the_cpu():
    ids, weight, upstream = inputs(20, 35, 8, torch.float64)
    direction = torch.randn(35, 8, dtype=torch.float64)

    def results(device):
        i, w, u, d = (t.to(device) for t in (ids.clamp(0, 34), weight, upstream, direction))

        def loss(table):
            return (sb.embedding(i, table) * u).square().sum()

        mapped = torch.func.vmap(lambda ids: sb.embedding(ids, w))(i.view(4, 5))
        moved = torch.func.jvp(lambda t: sb.embedding(i, t, padding_idx=2), (w,), (d,))
        return mapped, *moved, torch.func.grad(loss)(w), torch.func.jvp(torch.func.grad(loss), (w,), (d,))[1]

    for value, expected in zip(results(GPU), results("cpu"), strict=True):
        assert_same_bits(value.cpu(), expected)


def test_a28_compile_breaks_no_graph_and_keeps_the_bits():
    compiled = torch.compile(sb.embedding, fullgraph=True)
    for count in range(1, 6):
        ids, weight, upstream = (t.to(GPU) for t in inputs(count, 35, 64, torch.bfloat16))
        leaf = weight.requires_grad_()
        rows = compiled(ids, leaf)
        expected = run(ids, weight.detach(), upstream, GPU)
        assert_same_call((rows.cpu(), torch.autograd.grad(rows, leaf, upstream)[0].cpu()), expected)


def test_a_cuda_graph_replays_the_bits_on_new_ids():
    ids, weight, upstream = (t.to(GPU) for t in inputs(5000, 35, 264, torch.bfloat16))
    ops = torch.ops.samebits

    def step():
        return ops.embedding(ids, weight), ops.embedding_backward(ids, upstream, 35)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()  # first use of the kernels
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in range(3):
        fresh = inputs(5000, 35, 264, torch.bfloat16, seed)[0]
        fresh[: 1000 * seed] = 5
        ids.copy_(fresh)
        graph.replay()
        for value, expected in zip(captured, step(), strict=True):
            assert_same_bits(value, expected)


def test_nothing_waits_for_the_device():
    ids, weight, upstream = (t.to(GPU) for t in inputs(5000, 35, 64, torch.bfloat16))
    buffer = torch.zeros(35, 64, device=GPU)
    leaf = weight.requires_grad_()

    def calls():
        torch.autograd.grad(sb.embedding(ids, leaf, padding_idx=3), leaf, upstream)
        sb.embedding(ids, leaf, grad_accumulator=buffer).backward(upstream)

    assert_nothing_waits(calls)


def test_errors_are_those_of_the_cpu():
    ids, weight = torch.tensor([1, -3, 2]), torch.randn(5, 8)
    for spoiled, options in (
        ((ids.float(), weight), {}),
        ((ids, weight.long()), {}),
        ((ids, weight[0]), {}),
        ((ids, weight), {"on_invalid": "raise"}),
        ((ids, weight), {"padding_idx": 5}),
    ):
        errors = []
        for device in ("cpu", GPU):
            with pytest.raises((ValueError, TypeError)) as caught:
                sb.embedding(*(tensor.to(device) for tensor in spoiled), **options)
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]
    with pytest.raises((ValueError, RuntimeError), match=r"^ids: is on (the )?cpu"):
        sb.embedding(ids, weight.to(GPU))


def test_operators_pass_opcheck():
    ids, weight, upstream = (t.to(GPU) for t in inputs(20, 35, 8, torch.float32))
    ids = ids.clamp(0, 34)
    ops = torch.ops.samebits
    torch.library.opcheck(ops.embedding.default, (ids, weight))
    torch.library.opcheck(ops.embedding_backward.default, (ids, upstream, 35))
    torch.library.opcheck(
        ops.embedding_backward_into.default, (ids, upstream, torch.zeros(35, 8, device=GPU))
    )


def test_memory_is_that_of_the_sort_and_not_of_the_repeats():
    ids, _, upstream = (t.to(GPU) for t in inputs(50_000, 131072, 256, torch.bfloat16))
    ids[:] = 77
    gradient = torch.ops.samebits.embedding_backward(ids, upstream, 131072)
    del gradient
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradient = torch.ops.samebits.embedding_backward(ids, upstream, 131072)
    extra = torch.cuda.max_memory_allocated() - before - gradient.numel() * 2
    assert extra <= 8 << 20, f"{extra} bytes beside the gradient"
