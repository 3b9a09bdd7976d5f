"""CUDA gives the CPU's bits through torch: dtypes, options, strides, rows, out, derivatives."""

import pytest
import torch

import samebits as sb
from evidence import inputs, operators
from evidence.bits import differing_rows
from evidence.inputs import Case
from samebits import _native
from support import DTYPES, assert_same_bits, random_logits, random_targets

GPU = "cuda:0"


def test_the_cuda_library_is_loaded():
    assert _native.cuda_problem == ""
    assert next(backend for backend in sb.backends() if backend.name == "cuda").available
    plan = sb.plan("logp", device=GPU)
    assert plan.can_run and plan.backend == "cuda" and plan.contract == "row.v1"
    assert plan.provenance["device_name"] == torch.cuda.get_device_name(GPU)
    capability = "".join(map(str, torch.cuda.get_device_capability(GPU)))
    assert all(capability in kernel for kernel in plan.kernels)
    sb.require_same(plan, sb.plan("logp"))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    ("rows", "vocab", "options"),
    [
        (3000, 300, {}), (700, 1000, {"temperature": 0.7}),
        (300, 1024, {"vocab_size": 1001, "ignore_index": 3}),
        (100, 5003, {"precision": "fp64"}), (3, 131072, {}), (1, 151936, {}),
        *((rows, 257, {}) for rows in (1, 2, 7, 64, 255, 257, 4096)),
    ],
)  # fmt: skip
def test_every_operator_equals_the_cpu(dtype, rows, vocab, options):
    name = str(dtype).removeprefix("torch.")
    case = Case("test", 1000 + rows, rows, vocab, name, True, options)
    batch = inputs.make(case, torch.arange(rows))
    on_gpu = operators.outputs(case, inputs.make(case, torch.arange(rows, device=GPU)))
    for output, expected in operators.outputs(case, batch).items():
        value = on_gpu[output].cpu()
        if output == "curvature":  # torch's own arithmetic: any NaN is as good as another
            value, expected = (torch.where(x.isnan(), torch.nan, x) for x in (value, expected))
        assert differing_rows(value, expected) == 0, output


def on_both(call, *tensors):
    """What `call` gives on the CPU and on the GPU, as CPU tensors."""
    results = []
    for device in ("cpu", GPU):
        moved = [t.to(device) if isinstance(t, torch.Tensor) else t for t in tensors]
        value = call(*moved)
        results.append([v.cpu() for v in (value if isinstance(value, tuple) else (value,))])
    return results


def assert_equal_on_both(call, *tensors):
    for index, (expected, value) in enumerate(zip(*on_both(call, *tensors), strict=True)):
        assert_same_bits(value, expected, f"output {index}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_options_equal_the_cpu(dtype):
    logits, targets = random_logits(24, 700, dtype, 3), random_targets(24, 700, 3)
    temperature = torch.linspace(0.3, 2.0, 24)
    rows = torch.tensor([3, 3, 23, -1, 99, 0], dtype=torch.int32)
    for options in (
        {"on_invalid": "nan"}, {"ignore_index": 5}, {"vocab_size": 640}, {"temperature": 1.7},
        {"return_lse": True, "return_entropy": True},
    ):  # fmt: skip
        assert_equal_on_both(lambda x, t, options=options: sb.logp(x, t, **options), logits, targets)
    assert_equal_on_both(lambda x, t, tau: sb.logp(x, t, temperature=tau), logits, targets, temperature)
    assert_equal_on_both(lambda x, t, r: sb.logp(x, t, rows=r), logits, targets, rows)
    assert_equal_on_both(lambda x, t: sb.logp(x, t.int()), logits, targets)


def test_rows_not_listed_keep_their_values_in_out(call):
    logits, targets = call
    buffer = torch.full((5,), 7.0, device=GPU)
    address = buffer.data_ptr()
    assert sb.logp(logits, targets, rows=torch.tensor([1, 4], device=GPU), out=buffer) is buffer
    assert buffer.data_ptr() == address
    whole = sb.logp(logits, targets)
    assert_same_bits(buffer[[1, 4]].cpu(), whole[[1, 4]].cpu())
    assert (buffer[[0, 2, 3]] == 7).all()


def test_a6_target_dtype_and_stride():
    logits, targets = torch.randn(16, 1000, device=GPU), torch.randint(0, 1000, (16,), device=GPU)
    expected = sb.logp(logits, targets)
    base = torch.stack([targets, targets.flip(0)], 1)
    for same in (targets.int(), base[:, 0], base.int()[:, ::2][:, 0], targets.flip(0).contiguous().flip(0)):
        assert_same_bits(sb.logp(logits, same), expected)
    one = torch.tensor(7, device=GPU)
    assert_same_bits(sb.logp(logits, one.expand(16)), sb.logp(logits, torch.full((16,), 7, device=GPU)))
    with pytest.raises(TypeError, match=r"^targets: is float32"):
        sb.logp(logits, targets.float())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a7_strides_equal_the_contiguous_clone(dtype):
    targets = torch.tensor([[0, 1], [2, 3], [4, 5], [6, 7]], device=GPU)
    wide = torch.randn(4, 4000, device=GPU).to(dtype)
    for logits, ids in (
        (torch.randn(2, 4, 3000, device=GPU).to(dtype).transpose(0, 1), targets),
        (wide[:, :3000], targets[:, 0]),
        (wide[:, 3:3003], targets[:, 0]),  # aligned to one element only
        (torch.randn(3000, 4, device=GPU).to(dtype).t(), targets[:, 0]),
        (wide[:1].expand(4, 4000), targets[:, 0]),
    ):
        results = []
        for copy in (logits, logits.contiguous()):
            leaf = copy.detach().requires_grad_()
            values = sb.logp(leaf, ids)
            results.append((values.detach(), *torch.autograd.grad(values.sum(), leaf)))
        for strided, dense in zip(*results, strict=True):
            assert_same_bits(strided.contiguous(), dense.contiguous())


def test_errors_are_those_of_the_cpu():
    logits, targets = torch.randn(3, 50), torch.tensor([1, 50, 2])
    for spoiled, options in (
        ((logits, targets.float()), {}),
        ((logits, targets[:2]), {}),
        ((logits.long(), targets), {}),
        ((logits, targets), {"on_invalid": "raise"}),
        ((logits, targets), {"vocab_size": 51}),
        ((logits, targets), {"temperature": 0.0}),
    ):
        errors = []
        for device in ("cpu", GPU):
            with pytest.raises((ValueError, TypeError)) as caught:
                sb.logp(*(tensor.to(device) for tensor in spoiled), **options)
            errors.append((type(caught.value), str(caught.value)))
        assert errors[0] == errors[1]


def test_operands_on_two_devices_are_named():
    logits, targets = torch.randn(3, 50, device=GPU), torch.tensor([1, 2, 3])
    with pytest.raises((ValueError, RuntimeError), match=r"^targets: is on (the )?cpu"):
        sb.logp(logits, targets)
    with pytest.raises(RuntimeError, match=r"^backend: is 'scalar' with operands on cuda:0"):
        sb.logp(logits, targets.to(GPU), backend="scalar")
