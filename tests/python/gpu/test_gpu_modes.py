"""Transforms, compile, autocast, graphs and streams on the GPU: the same bits as the plain call."""

import pytest
import torch

import samebits as sb
from support import assert_nothing_waits, assert_same_bits

GPU = "cuda:0"


def gradient_of(logits, targets, **options):
    """The plain first-order gradient of the sum."""
    leaf = logits.detach().requires_grad_()
    return torch.autograd.grad(sb.logp(leaf, targets, **options).sum(), leaf)[0]


def test_a13_recording_changes_no_bits_and_is_never_dropped(call):
    logits, targets = call
    leaf = logits.clone().requires_grad_()
    recorded = sb.logp(leaf, targets, return_lse=True, return_entropy=True)
    assert all(value.grad_fn is not None for value in recorded)
    assert sb.logp(leaf, targets, out=torch.empty(5, device=GPU)).grad_fn is not None
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            plain = sb.logp(leaf, targets, return_lse=True, return_entropy=True)
        for value, expected in zip(plain, recorded, strict=True):
            assert_same_bits(value.clone(), expected)


def test_vmap_equals_the_loop(call):
    logits = torch.randn(6, 5, 3000, device=GPU)
    targets = torch.randint(0, 3000, (6, 5), device=GPU)
    mapped = torch.func.vmap(sb.logp)(logits, targets)
    assert_same_bits(mapped, torch.stack([sb.logp(x, t) for x, t in zip(logits, targets, strict=True)]))
    grads = torch.func.vmap(torch.func.grad(lambda x, t: sb.logp(x, t).sum()))(logits, targets)
    looped = torch.stack([gradient_of(x, t) for x, t in zip(logits, targets, strict=True)])
    assert_same_bits(grads, looped)


def test_forward_mode_equals_the_cpu(call):
    logits, targets = call
    direction = torch.randn(5, 3000)

    def run(device):
        ids = targets.to(device)
        primal = logits.to(device)
        return torch.func.jvp(lambda x: sb.logp(x, ids), (primal,), (direction.to(device),))

    for value, expected in zip(run(GPU), run("cpu"), strict=True):
        assert_same_bits(value.cpu(), expected)


def test_a28_compile_breaks_no_graph_and_keeps_the_bits():
    compiled = torch.compile(sb.logp, fullgraph=True)
    for rows in range(1, 10):
        logits, targets = torch.randn(rows, 1000, device=GPU), torch.arange(rows, device=GPU)
        leaf = logits.clone().requires_grad_()
        values = compiled(leaf, targets)
        assert_same_bits(values, sb.logp(logits, targets))
        assert_same_bits(torch.autograd.grad(values.sum(), leaf)[0], gradient_of(logits, targets))
        assert values.device == logits.device


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_changes_no_bits(call, dtype):
    logits, targets = call
    with torch.autocast("cuda", dtype=dtype):
        values, gradient = sb.logp(logits, targets), gradient_of(logits, targets)
    assert_same_bits(values, sb.logp(logits, targets))
    assert_same_bits(gradient, gradient_of(logits, targets))


@pytest.mark.parametrize("rows", [1, 8, 64])
def test_a_cuda_graph_replays_the_bits_on_new_inputs(rows):
    static = torch.randn(rows, 131072, device=GPU).bfloat16()
    targets = torch.randint(0, 131072, (rows,), device=GPU)
    upstream = torch.ones(rows, device=GPU)
    ops = torch.ops.samebits

    def step():
        values = ops.logp_forward(static, targets, True, True, True)
        return values[:3], ops.logp_backward(static, targets, *values[3:], upstream, None, upstream)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()  # first use of the kernels
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    for seed in range(3):
        torch.manual_seed(seed)
        static.copy_(torch.randn(rows, 131072, device=GPU) * (seed + 1))
        graph.replay()
        values, gradient = step()
        for got, expected in zip((*captured[0], captured[1]), (*values, gradient), strict=True):
            assert_same_bits(got, expected)


def test_work_goes_to_the_current_stream():
    logits = torch.zeros(512, 50000, device=GPU)
    targets = torch.zeros(512, dtype=torch.long, device=GPU)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)  # were the call on another stream, it would read the zeros
        logits.copy_(torch.arange(50000, device=GPU) / 1000)
        values = sb.logp(logits, targets)
    torch.cuda.synchronize()
    expected = sb.logp((torch.arange(50000) / 1000).expand(512, 50000), targets.cpu())
    assert_same_bits(values.cpu(), expected)


def test_two_streams_at_once_get_their_own_bits():
    calls = [(torch.randn(64, 40000 + 1000 * i, device=GPU), torch.arange(64, device=GPU)) for i in range(2)]
    expected = [(sb.logp(*call), gradient_of(*call)) for call in calls]
    streams = [torch.cuda.Stream() for _ in calls]
    torch.cuda.synchronize()
    results = [[], []]
    for _ in range(20):
        for stream, call, kept in zip(streams, calls, results, strict=True):
            with torch.cuda.stream(stream):
                kept.append((sb.logp(*call), gradient_of(*call)))
    torch.cuda.synchronize()
    for kept, wanted in zip(results, expected, strict=True):
        for values in kept:
            for value, right in zip(values, wanted, strict=True):
                assert_same_bits(value, right)


def test_nothing_waits_for_the_device(call):
    logits, targets = call
    rows = torch.tensor([1, 2], device=GPU)
    temperature = torch.full((5,), 0.7, device=GPU)
    buffer = torch.empty(5, device=GPU)

    def calls():
        gradient_of(logits, targets, rows=rows)
        sb.logp(logits, targets, temperature=temperature, out=buffer)

    assert_nothing_waits(calls)


def test_operators_pass_opcheck(call):
    logits, targets = call
    ops = torch.ops.samebits
    stats = ops.logp_forward(logits, targets, False, True, True)[3:]
    upstream = torch.ones(5, device=GPU)
    for operator, arguments in (
        (ops.logp.default, (logits, targets)),
        (ops.logp_out.default, (logits, targets, torch.empty(5, device=GPU))),
        (ops.logp_forward.default, (logits, targets, True, True, True)),
        (ops.logp_backward.default, (logits, targets, *stats, upstream, None, upstream)),
        (ops.probability.default, (logits, targets, *stats[:2])),
        (ops.row_sum.default, (logits,)),
    ):
        torch.library.opcheck(operator, arguments)


def test_gradcheck_in_fp64():
    targets = torch.tensor([0, 5, -1, 39], device=GPU)
    leaf = torch.randn(4, 40, device=GPU, dtype=torch.float64, requires_grad=True)

    def outputs(x):
        return tuple(sb.logp(x, targets, return_lse=True, return_entropy=True))[::2]

    assert torch.autograd.gradcheck(outputs, leaf)
    assert torch.autograd.gradgradcheck(outputs, leaf)
