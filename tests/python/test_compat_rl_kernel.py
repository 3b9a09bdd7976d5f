"""RL-Kernel's names: each gives the bits of the samebits.logp call it stands for."""

import inspect

import pytest
import torch

import samebits as sb
from samebits.compat.rl_kernel import LogpOp, NemotronHLMHeadLogprobSM90Op
from samebits.models._strict import Geometry
from support import assert_same_bits

LOGITS = torch.randn(3, 4, 33, generator=torch.Generator().manual_seed(0)).bfloat16()
TOKEN_IDS = torch.tensor([[0, 32, 5, -100], [7, 33, 1, 2], [3, 4, 8, 31]])
ROWS = torch.tensor([[0, 5], [11, 5]], dtype=torch.int32)  # row 5's id is out of the vocabulary; any shape
HIDDEN = torch.randn(3, 4, 16, generator=torch.Generator().manual_seed(1)).bfloat16()
WEIGHT = torch.randn(33, 16, generator=torch.Generator().manual_seed(2)).bfloat16()
DENSE = sb.logp(LOGITS, TOKEN_IDS)
SELECTED = sb.logp(LOGITS, TOKEN_IDS, rows=ROWS.flatten())
DENSE64 = sb.logp(LOGITS, TOKEN_IDS, precision="fp64")
SELECTED64 = sb.logp(LOGITS, TOKEN_IDS, rows=ROWS.flatten(), precision="fp64")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("__call__", DENSE),
        ("apply", DENSE),
        ("apply_fp32", DENSE),
        ("forward", DENSE),
        ("forward_fp32", DENSE),
        ("online_fp32", DENSE),
        ("apply_fp64", DENSE64),
        ("online_fp64", DENSE64),
    ],
)
def test_dense_names_give_the_bits_of_logp(name, expected):
    assert_same_bits(getattr(LogpOp(), name)(LOGITS, TOKEN_IDS), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("indexed_fp32", SELECTED),
        ("online_indexed_fp32", SELECTED),
        ("indexed_fp64", SELECTED64),
        ("online_indexed_fp64", SELECTED64),
    ],
)
def test_indexed_names_give_the_bits_of_logp_with_rows(name, expected):
    assert_same_bits(getattr(LogpOp(), name)(LOGITS, TOKEN_IDS, ROWS), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["out", "online_out"])
def test_out_names_fill_the_buffer_and_return_it(name, dtype):
    buffer = torch.full((3, 4), 7.0, dtype=dtype)
    assert getattr(LogpOp(), name)(LOGITS, TOKEN_IDS, buffer) is buffer
    assert_same_bits(buffer, DENSE if dtype == torch.float32 else DENSE64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["indexed_out", "online_indexed_out"])
def test_indexed_out_names_leave_other_rows_of_the_buffer_alone(name, dtype):
    buffer = torch.full((3, 4), 7.0, dtype=dtype)
    assert getattr(LogpOp(), name)(LOGITS, TOKEN_IDS, ROWS, buffer) is buffer
    expected = torch.full((12,), 7.0, dtype=dtype)
    listed = ROWS.flatten().long()
    expected[listed] = (SELECTED if dtype == torch.float32 else SELECTED64).flatten()[listed]
    assert_same_bits(buffer, expected.view(3, 4))


@pytest.mark.parametrize("precision", [None, "fp64"])
@pytest.mark.parametrize("name", ["apply_with_lse", "online_with_lse"])
def test_lse_names_give_both(name, precision):
    expected = sb.logp(LOGITS, TOKEN_IDS, precision=precision, return_lse=True)
    actual = getattr(LogpOp(), name)(LOGITS, TOKEN_IDS, precision=precision)
    assert_same_bits(actual.logp, expected.logp)
    assert_same_bits(actual.lse, expected.lse)


@pytest.mark.parametrize("precision", [None, "fp64"])
@pytest.mark.parametrize("name", ["indexed_with_lse", "online_indexed_with_lse"])
def test_indexed_lse_names_give_both(name, precision):
    expected = sb.logp(LOGITS, TOKEN_IDS, rows=ROWS.flatten(), precision=precision, return_lse=True)
    actual = getattr(LogpOp(), name)(LOGITS, TOKEN_IDS, ROWS, precision=precision)
    assert_same_bits(actual.logp, expected.logp)
    assert_same_bits(actual.lse, expected.lse)


def test_no_name_is_left_without_a_test():
    named = set()
    for test in (
        test_dense_names_give_the_bits_of_logp,
        test_indexed_names_give_the_bits_of_logp_with_rows,
        test_out_names_fill_the_buffer_and_return_it,
        test_indexed_out_names_leave_other_rows_of_the_buffer_alone,
        test_lse_names_give_both,
        test_indexed_lse_names_give_both,
    ):
        for mark in test.pytestmark:
            if "name" in str(mark.args[0]):
                named |= {case if isinstance(case, str) else case[0] for case in mark.args[1]}
    public = {name for name, _ in inspect.getmembers(LogpOp, callable) if not name.startswith("_")}
    assert named - {"__call__"} == public


def test_names_work_without_an_instance_and_carry_gradients():
    leaf = LOGITS.float().requires_grad_()
    buffer = torch.zeros(3, 4)
    (through_out,) = torch.autograd.grad(LogpOp.out(leaf, TOKEN_IDS, buffer).sum(), leaf)
    (dense,) = torch.autograd.grad(LogpOp.apply(leaf, TOKEN_IDS).sum(), leaf)
    assert_same_bits(through_out, dense)
    (selected,) = torch.autograd.grad(LogpOp.indexed_fp32(leaf, TOKEN_IDS, ROWS).sum(), leaf)
    kept = torch.zeros(12, 1, dtype=torch.bool).index_fill(0, ROWS.flatten().long(), True).view(3, 4, 1)
    assert_same_bits(selected, torch.where(kept, dense, 0.0))


def test_a_buffer_of_16_bits_is_refused_by_name():
    with pytest.raises(TypeError, match=r"out: is bfloat16; must be float32"):
        LogpOp.out(LOGITS, TOKEN_IDS, torch.zeros(3, 4, dtype=torch.bfloat16))


class SmallHeadOp(NemotronHLMHeadLogprobSM90Op):
    """The Nemotron name at sizes that a test can afford."""

    geometry = Geometry(vocab=33, hidden=16)


@pytest.mark.parametrize("name", ["__call__", "apply", "forward"])
def test_the_nemotron_head_gives_the_bits_of_linear_logp(name):
    weight = WEIGHT.clone().requires_grad_()
    values = getattr(SmallHeadOp(device_contract="twin"), name)(HIDDEN, weight, TOKEN_IDS)
    expected = sb.linear_logp(HIDDEN, weight, TOKEN_IDS)
    assert_same_bits(values.detach(), expected.detach())
    assert_same_bits(*(torch.autograd.grad(v.sum(), weight)[0] for v in (values, expected)))


def test_the_nemotron_head_has_the_gates_of_the_model():
    with pytest.raises(RuntimeError, match=r"^device_contract: is 'proven', and weight is on cpu"):
        SmallHeadOp()(HIDDEN, WEIGHT, TOKEN_IDS)
    with pytest.raises(ValueError, match=r"^weight: has shape \[33, 16\]; must be \[131072, 2688\]"):
        NemotronHLMHeadLogprobSM90Op(device_contract="twin")(HIDDEN, WEIGHT, TOKEN_IDS)
    with pytest.raises(ValueError, match=r"^device_contract: is 'any'; may be 'proven' or 'twin'"):
        SmallHeadOp(device_contract="any")
    op = SmallHeadOp(device_contract="twin")
    for options, message in (
        ({"bias": torch.zeros(33)}, r"^bias: is given; must be None"),
        ({"tp_group": object()}, r"^tp_group: is given; must be None, for one device"),
        ({"vocab_start_index": 11}, r"^vocab_start_index: is 11; must be 0, the whole vocabulary$"),
        ({"global_vocab_size": 66}, r"^global_vocab_size: is 66; must be None or 33$"),
    ):
        with pytest.raises(ValueError, match=message):
            op(HIDDEN, WEIGHT, TOKEN_IDS, **options)
    assert_same_bits(op(HIDDEN, WEIGHT, TOKEN_IDS, global_vocab_size=33), op(HIDDEN, WEIGHT, TOKEN_IDS))
