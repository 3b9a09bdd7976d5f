"""Every dispatcher operator: opcheck, fake shapes, meta tensors."""

import pytest
import torch

import samebits as sb
from samebits import _native
from support import assert_same_bits

OPS = torch.ops.samebits
OPTIONS = {"temperature": 0.7, "ignore_index": 2, "on_invalid": "zero", "vocab_size": 40, "backend": "scalar"}


def statistics(logits, targets, **options):
    """Row statistics saved by a forward call that wants everything."""
    return OPS.logp_forward.default(logits, targets, True, True, True, **options)[3:]


@pytest.fixture(params=["plain", "options", "rows", "temperatures", "wide", "strided", "empty"])
def call(request):
    """(logits, targets, options) in every flavour a kernel tells apart."""
    logits, targets = torch.randn(2, 3, 50), torch.tensor([[0, 1, 2], [3, 50, -1]])
    options = {
        "options": OPTIONS,
        "rows": {"rows": torch.tensor([4, 0, 4], dtype=torch.int32)},
        "temperatures": {"row_temperature": torch.tensor([[0.5, 1.0, 2.0], [1.0, 1.5, 3.0]])},
        "wide": {"binary64": True},
    }.get(request.param, {})
    if request.param == "strided":
        logits = torch.randn(3, 50, 2).permute(2, 0, 1).bfloat16()
    if request.param == "empty":
        logits, targets = logits[:, :0], targets[:, :0]
    return logits, targets, options


def test_logp_passes_opcheck(call):
    logits, targets, options = call
    torch.library.opcheck(OPS.logp.default, (logits, targets), options)


def test_logp_out_passes_opcheck(call):
    logits, targets, options = call
    out = torch.full(targets.shape, 7.0, dtype=torch.float64 if "binary64" in options else torch.float32)
    torch.library.opcheck(OPS.logp_out.default, (logits, targets, out), options)


@pytest.mark.parametrize("asked", [(False, False, True), (True, True, True), (True, True, False)])
def test_logp_forward_passes_opcheck(call, asked):
    logits, targets, options = call
    torch.library.opcheck(OPS.logp_forward.default, (logits, targets, *asked), options)


def test_logp_backward_passes_opcheck(call):
    logits, targets, options = call
    saved = statistics(logits, targets, **options)
    upstream = torch.ones(targets.shape, dtype=saved[0].dtype)
    arguments = (logits, targets, *saved, upstream, None, upstream)
    torch.library.opcheck(OPS.logp_backward.default, arguments, options)


def test_probability_passes_opcheck(call):
    logits, targets, options = call
    row_max, row_sum, _ = statistics(logits, targets, **options)
    torch.library.opcheck(OPS.probability.default, (logits, targets, row_max, row_sum), options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_row_sum_passes_opcheck(dtype):
    values = torch.randn(3, 50, 2, dtype=dtype)
    for argument in (
        values,
        values.permute(2, 0, 1),
        values[:, :, :0],
        values[0, 0].expand(4, 5, 2),
        values[0, :, 0],
    ):
        torch.library.opcheck(OPS.row_sum.default, (argument,))
    torch.library.opcheck(OPS.row_sum.default, (values, "scalar"))


def test_probabilities_are_those_of_softmax_and_add_up_to_one():
    logits, targets = torch.randn(4, 3, 1000, dtype=torch.float64), torch.zeros(4, 3, dtype=torch.int64)
    row_max, row_sum, _ = statistics(logits, targets)
    probabilities = OPS.probability(logits, targets, row_max, row_sum)
    # Each value passes through fewer than 64 roundings of 2^-53 in either computation.
    torch.testing.assert_close(probabilities, logits.softmax(-1), rtol=64 * 2**-53, atol=0)
    ones = torch.ones(4, 3, dtype=torch.float64)
    torch.testing.assert_close(OPS.row_sum(probabilities), ones, rtol=64 * 2**-53, atol=0)


def test_row_sum_refuses_what_it_cannot_add():
    for values, message in (
        (torch.randn(3, 4).bfloat16(), r"values: is bfloat16; must be float32 or float64"),
        (torch.tensor(1.0), r"values: has no axis"),
        (torch.zeros(0, 2**22 + 1), r"values: has 4194305 columns"),
    ):
        with pytest.raises(RuntimeError, match=message):
            OPS.row_sum(values)


def test_products_pass_opcheck():
    hidden, weight = torch.randn(2, 3, 8), torch.randn(20, 8)
    torch.library.opcheck(OPS.matmul.default, (hidden[0], weight.t()), {"backend": "scalar"})
    half = (hidden[0].bfloat16(), weight.t().bfloat16())
    torch.library.opcheck(OPS.matmul.default, (*half, torch.float32, "fma"))
    torch.library.opcheck(OPS.matmul.default, (hidden[0].double(), weight.t().double()))


def test_meta_tensors_give_shapes_and_dtypes():
    logits, targets = (
        torch.empty(4, 7, 100, device="meta", dtype=torch.bfloat16),
        torch.empty(4, 7, device="meta", dtype=torch.int64),
    )
    values = sb.logp(logits, targets, return_lse=True, return_entropy=True)
    for value in values:
        assert value.shape == (4, 7) and value.dtype == torch.float32 and value.device.type == "meta"
    assert sb.logp(logits, targets, precision="fp64").dtype == torch.float64
    leaf = logits.requires_grad_()
    (gradient,) = torch.autograd.grad(sb.logp(leaf, targets), leaf, torch.empty(4, 7, device="meta"))
    assert gradient.shape == logits.shape and gradient.dtype == torch.bfloat16


def test_wrong_shapes_are_refused_before_any_kernel_runs():
    logits = torch.empty(4, 100, device="meta")
    with pytest.raises(ValueError, match=r"^targets: has shape \[5\]; must have the leading shape \[4\]"):
        sb.logp(logits, torch.empty(5, device="meta", dtype=torch.int64))
    with pytest.raises(TypeError, match=r"^targets: is float32; may be int32 or int64"):
        sb.logp(logits, torch.empty(4, device="meta"))


def test_a_fake_cuda_tensor_is_refused_with_one_clear_error(monkeypatch):
    monkeypatch.setattr(_native, "cuda_problem", "this build of samebits has no CUDA library")
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
        logits = torch.empty(4, 100, device="cuda")
        targets = torch.empty(4, device="cuda", dtype=torch.int64)
        with pytest.raises(
            RuntimeError, match=r"logits: is on cuda:0, and this build of samebits has no CUDA"
        ):
            sb.logp(logits, targets)


def test_operators_and_functions_give_the_same_bits():
    logits, targets = torch.randn(6, 300), torch.tensor([0, 1, 2, 299, 300, -1])
    assert_same_bits(OPS.logp(logits, targets), sb.logp(logits, targets))
    assert_same_bits(OPS.logp_forward(logits, targets, True, True, True)[0], sb.logp(logits, targets))
