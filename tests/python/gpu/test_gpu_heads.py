"""linear_logp on a GPU, through autograd and its modes: the CPU's bits, and the field's failures."""

import json

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import samebits as sb
from support import DTYPES, assert_same_bits, bits

GPU = "cuda:0"


def head(rows=37, vocab=333, size=72, dtype=torch.bfloat16, seed=0):
    """hidden, weight, bias and targets on the CPU; some rows take no part."""
    generator = torch.Generator().manual_seed(seed)
    hidden, weight, bias = (
        (torch.randn(shape, generator=generator, dtype=torch.float64) / 2).to(dtype)
        for shape in ((rows, size), (vocab, size), (vocab,))
    )
    return hidden, weight, bias, torch.randint(-vocab // 8, vocab, (rows,), generator=generator)


def run(device, hidden, weight, bias, targets, upstream=(1.0, None, None), **options):
    """(logp, lse, entropy, gradients of hidden, weight and bias), on the CPU again."""
    leaves = [t.to(device).requires_grad_() for t in (hidden, weight, bias)]
    options = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    results = sb.linear_logp(*leaves[:2], targets.to(device), bias=leaves[2], return_lse=True,
                             return_entropy=True, **options)  # fmt: skip
    scales = torch.linspace(-2, 3, targets.numel(), dtype=results[0].dtype, device=device).view(targets.shape)
    pairs = [(r, u * scales) for r, u in zip(results, upstream, strict=True) if u is not None]
    gradients = torch.autograd.grad([r for r, _ in pairs], leaves, [u for _, u in pairs])
    return [t.detach().cpu() for t in (*results, *gradients)]


def assert_equal_on_both(*call, **options):
    names = ("logp", "lse", "entropy", "hidden", "weight", "bias")
    values = zip(names, run(GPU, *call, **options), run("cpu", *call, **options), strict=True)
    for name, value, expected in values:
        assert_same_bits(value, expected, name)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"contract": "fma"},
        {"temperature": 0.7},
        {"temperature": torch.linspace(0.5, 2.0, 37)},
        {"vocab_size": 300, "ignore_index": 3},
        {"rows": torch.tensor([5, 36, 0, 5, 11])},
        {"on_invalid": "nan"},
        {"upstream": (1.0, 0.5, -1.5)},
        {"upstream": (None, None, 2.0)},
        {"upstream": (None, 1.0, None), "memory": "save"},
    ],
    ids=lambda options: "+".join(options) or "plain",
)
def test_every_option_gives_the_bits_of_the_cpu(dtype, options):
    assert_equal_on_both(*head(dtype=dtype), **options)


@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (3, 129, 7), (130, 1000, 64), (300, 70, 2688), (5, 20000, 33)], ids=str
)
def test_every_size_gives_the_bits_of_the_cpu(shape):
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        rows, vocab, size = shape
        assert_equal_on_both(*head(rows, vocab, size, dtype, seed=rows))


def test_a2_a_mask_of_minus_infinity_in_the_bias():
    hidden, weight, bias, _ = head()
    for target in (0, 127, 128, 332):
        bias = torch.full_like(bias, -torch.inf)
        bias[target] = 0.0
        values = run(GPU, hidden, weight, bias, torch.full((37,), target))
        assert not values[0].any() and not any(gradient.any() for gradient in values[3:])
        assert_equal_on_both(hidden, weight, bias, torch.full((37,), target))


def test_a4_a5_no_token_at_all():
    hidden, weight, bias, targets = head()
    for ids in (torch.full_like(targets, -100), targets[:0]):
        values = run(GPU, hidden[: ids.numel()], weight, bias, ids)
        assert not any(v.any() for v in (values[0], *values[3:]))
        assert values[4].shape == weight.shape


def test_a7_strides_are_those_of_the_contiguous_clone():
    hidden, weight, _, targets = (t.to(GPU) for t in head(rows=8, size=64))
    wide = torch.randn(8, 80, device=GPU).bfloat16()
    plain = sb.linear_logp(hidden, weight, targets)
    assert_same_bits(sb.linear_logp(hidden, weight.t().contiguous().t(), targets), plain)
    assert_same_bits(sb.linear_logp(hidden.t().contiguous().t(), weight, targets), plain)
    for part in (wide[:, :64], wide[:, 3:67], wide[:1, :64].expand(8, 64)):
        assert_same_bits(
            sb.linear_logp(part, weight, targets), sb.linear_logp(part.contiguous(), weight, targets)
        )


def test_a11_frozen_operands_cost_nothing_and_change_nothing():
    hidden, weight, bias, targets = (t.to(GPU) for t in head())
    live = [t.clone().requires_grad_() for t in (hidden, weight, bias)]
    expected = torch.autograd.grad(sb.linear_logp(*live[:2], targets, bias=live[2]).sum(), live)
    for chosen in range(1, 8):
        leaves = [
            t.clone().requires_grad_(bool(chosen >> i & 1)) for i, t in enumerate((hidden, weight, bias))
        ]
        sb.linear_logp(*leaves[:2], targets, bias=leaves[2]).sum().backward()
        for leaf, wanted in zip(leaves, expected, strict=True):
            if leaf.requires_grad:
                assert_same_bits(leaf.grad, wanted)
            else:
                assert leaf.grad is None


def test_a13_recording_changes_no_bits():
    hidden, weight, _, targets = (t.to(GPU) for t in head())
    recorded = sb.linear_logp(hidden.clone().requires_grad_(), weight, targets)
    assert recorded.grad_fn is not None
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert_same_bits(sb.linear_logp(hidden, weight, targets).clone(), recorded.detach())


def test_a14_a15_a_row_is_the_same_in_every_batch():
    hidden, weight, _, targets = head(rows=257, vocab=1000, size=256)
    hidden, weight, targets = hidden.to(GPU).requires_grad_(), weight.to(GPU), targets.abs().to(GPU)
    values = sb.linear_logp(hidden, weight, targets)
    (gradient,) = torch.autograd.grad(values.sum(), hidden)
    for rows in (1, 2, 7, 17, 64, 65, 255):
        part = hidden.detach()[:rows].requires_grad_()
        again = sb.linear_logp(part, weight, targets[:rows])
        assert_same_bits(again.detach(), values.detach()[:rows], f"{rows} rows")
        assert_same_bits(torch.autograd.grad(again.sum(), part)[0], gradient[:rows], f"{rows} rows, gradient")
    order = torch.randperm(257, generator=torch.Generator().manual_seed(1)).to(GPU)
    shuffled = sb.linear_logp(hidden.detach()[order], weight, targets[order])
    assert bool(((shuffled - values.detach()[order]).exp() == 1).all())


def test_a18_temperatures_that_mean_nothing():
    hidden, weight, _, targets = (t.to(GPU) for t in head(rows=4))
    for temperature in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"^temperature: "):
            sb.linear_logp(hidden, weight, targets, temperature=temperature)
        mixed = torch.tensor([1.0, temperature, 1.0, 1.0], device=GPU)
        targets = torch.tensor([1, 2, 3, 4], device=GPU)
        assert sb.linear_logp(hidden, weight, targets, temperature=mixed).isnan().tolist() == [
            False,
            True,
            False,
            False,
        ]


def test_a26_a27_transforms_and_second_derivatives_equal_the_cpu():
    hidden, weight, _, targets = head(rows=3, vocab=7, size=5, dtype=torch.float64)

    def of(device):
        h, w, ids = hidden.to(device), weight.to(device), targets.to(device)

        def loss(x, t):
            return sb.linear_logp(x, w, t)

        mapped = torch.func.vmap(torch.func.grad(loss))(h, ids)
        jacobian = torch.func.jacrev(lambda x: loss(x, ids))(h)
        hessian = torch.func.hessian(lambda x: loss(x, ids).sum())(h)
        return [t.cpu() for t in (mapped, jacobian, hessian)]

    for index, (value, expected) in enumerate(zip(of(GPU), of("cpu"), strict=True)):
        # First order by the fused gradient; the second by torch's elementwise operators, of a few roundings.
        if index < 2:
            assert_same_bits(value, expected)
        torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-14)


def test_a28_compile_breaks_no_graph_and_keeps_the_bits():
    _, weight, _, _ = head(vocab=1000, size=64)
    weight = weight.to(GPU).requires_grad_()
    compiled = torch.compile(lambda h, w, t: sb.linear_logp(h, w, t), fullgraph=True)
    for rows in range(1, 6):
        hidden, _, _, targets = (t.to(GPU) for t in head(rows=rows, vocab=1000, size=64, seed=rows))
        hidden.requires_grad_()
        values, plain = compiled(hidden, weight, targets), sb.linear_logp(hidden, weight, targets)
        assert_same_bits(values.detach(), plain.detach())
        for value, expected in zip(*(torch.autograd.grad(v.sum(), (hidden, weight)) for v in (values, plain)),
                                   strict=True):  # fmt: skip
            assert_same_bits(value, expected)


def test_a_captured_step_replays_on_new_tokens():
    hidden, weight, _, targets = (t.to(GPU) for t in head(rows=64, vocab=1000, size=64))
    static, ids = hidden.clone().requires_grad_(), targets.clone()
    weight.requires_grad_()

    def step():
        values = sb.linear_logp(static, weight, ids)
        return (values, *torch.autograd.grad(values.sum(), (static, weight)))

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        static.copy_(hidden.flip(0))
        ids.copy_(targets.flip(0))
    graph.replay()
    for value, expected in zip([v.detach().clone() for v in captured], step(), strict=True):
        assert_same_bits(value, expected.detach())


def test_nothing_waits_for_the_device():
    hidden, weight, bias, targets = (t.to(GPU) for t in head(rows=64))
    leaves = [t.requires_grad_() for t in (hidden, weight, bias)]

    def run_once():
        return sb.linear_logp(*leaves[:2], targets, bias=leaves[2], return_entropy=True)

    run_once().logp.sum().backward()  # the probe, at first use, may
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = run_once()
        torch.autograd.grad((result.logp, result.entropy), leaves, (torch.ones_like(result.logp),) * 2)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("shape", [(1, 1, 8), (300, 20000, 72), (9000, 3000, 200)], ids=str)
def test_every_engine_gives_the_same_bits(shape):
    """Rows of weight an odd number of elements apart are left to the engine that takes any strides."""
    rows, vocab, size = shape
    hidden, weight, bias, targets = (t.to(GPU) for t in head(rows, vocab, size, seed=rows))
    apart = torch.empty(vocab, size + 1, dtype=weight.dtype, device=GPU)[:, :size].copy_(weight)
    scales = torch.linspace(-2, 3, rows, device=GPU)

    def of(matrix):
        leaves = [t.detach().requires_grad_() for t in (hidden, matrix, bias)]
        results = sb.linear_logp(*leaves[:2], targets, bias=leaves[2], return_lse=True, return_entropy=True)
        gradients = torch.autograd.grad(results[:2], leaves, (scales, scales.flip(0)))
        return (*(r.detach() for r in results), *gradients)

    names = ("logp", "lse", "entropy", "hidden", "weight", "bias")
    for name, value, expected in zip(names, of(apart), of(weight), strict=True):
        assert_same_bits(value, expected, name)


def test_few_tokens_spread_over_the_segments_of_the_vocabulary(tmp_path):
    """grad_hidden's sums of several segments are one launch, whose grid counts all of them."""
    hidden, weight, _, targets = (t.to(GPU) for t in head(rows=100, vocab=1 << 17, size=192))
    result = sb.linear_logp(hidden.requires_grad_(), weight, targets.abs())
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        result.sum().backward()
        torch.cuda.synchronize()
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    grids = [event["args"]["grid"] for event in kernels if "HoldSums" in event["name"]]
    if torch.cuda.get_device_capability() == (9, 0):
        assert grids == [[16, 1, 1]]  # one tile for each of 16 segments
    else:
        assert kernels and grids == []  # another engine's work


def test_an_accumulator_equals_the_cpus():
    hidden, weight, _, targets = head(rows=2000, vocab=100, size=40)
    buffers = {}
    for device in (GPU, "cpu"):
        buffers[device] = torch.zeros(weight.shape, device=device)
        leaf, other = hidden.to(device).requires_grad_(), weight.to(device).requires_grad_()
        for part in (slice(0, 1500), slice(1500, 2000)):
            sb.linear_logp(leaf[part], other, targets.to(device)[part],
                           grad_weight_accumulator=buffers[device]).sum().backward()  # fmt: skip
    assert_same_bits(buffers[GPU].cpu(), buffers["cpu"])


def test_a35_no_log_probability_is_positive():
    for scale in (1, 30, 300):
        hidden, weight, _, targets = (t.to(GPU) for t in head(rows=4000, vocab=500, size=64, seed=scale))
        values = sb.linear_logp(hidden * scale, weight, targets)
        assert bool((values <= 0).all()) and not bits(values)[targets >= 0].eq(0x7FFFFFFF).any()
