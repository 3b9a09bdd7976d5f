"""The strict operators of Nemotron-3-Nano: gates, one code path for training and rollout, provenance."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import samebits as sb
from samebits.models import _strict, nemotron_h
from samebits.models.nemotron_h import CHECKPOINT, LMHeadLogprob
from support import assert_same_bits

GENERATOR = torch.Generator().manual_seed(0)
SMALL = _strict.Geometry(vocab=300, hidden=40)
HIDDEN = torch.randn(2, 3, 40, generator=GENERATOR).bfloat16()
WEIGHT = torch.randn(300, 40, generator=GENERATOR).bfloat16()
TARGETS = torch.tensor([[0, 299, 7], [-100, 12, 150]])
ANY = {"checkpoint": CHECKPOINT, "device_contract": "twin"}


class SmallHead(LMHeadLogprob):
    """The same operator at sizes that a test can afford."""

    geometry = SMALL


def small(**options):
    return SmallHead(WEIGHT.clone().requires_grad_(), **{**ANY, **options})


@pytest.fixture
def on_gpu(monkeypatch):
    """Plans as a GPU gives them: its answer is what this returns, to be changed by a test."""
    answer = {"refusals": [], "device_probe": "passed: 4 families, 4096 chains", "gemm_backend": "sm90"}

    def fake_plan(op, *tensors, **options):
        options.pop("device", None)
        plan = sb.plan(op, **{**options, "dtype": torch.bfloat16})
        provenance = {**plan.provenance, "device": "cuda", "backend": "cuda"}
        provenance.update({k: v for k, v in answer.items() if k != "refusals" and v is not None})
        return sb.Plan(op, plan.contract, plan.level, "cuda", (), tuple(answer["refusals"]), (), provenance)

    monkeypatch.setattr(_strict, "plan", fake_plan)
    monkeypatch.setattr(_strict, "_proven", set())
    return answer


def test_the_geometry_is_that_of_the_model():
    head = LMHeadLogprob(
        torch.empty(131072, 2688, dtype=torch.bfloat16, device="meta"), checkpoint=CHECKPOINT
    )
    assert head.geometry == nemotron_h.GEOMETRY and "131072, 2688" in repr(head) and CHECKPOINT in repr(head)
    for shape, dtype, error, message in (
        (
            (131072, 2688),
            torch.float16,
            TypeError,
            r"^weight: is float16; must be bfloat16, that of the model$",
        ),
        (
            (131073, 2688),
            torch.bfloat16,
            ValueError,
            r"^weight: has shape \[131073, 2688\]; must be \[131072, 2688",
        ),
        ((2688, 131072), torch.bfloat16, ValueError, r"^weight: has shape \[2688, 131072\]; must be"),
        ((131072,), torch.bfloat16, ValueError, r"^weight: has shape \[131072\]; must be"),
    ):
        weight = torch.empty(shape, dtype=dtype, device="meta")
        with pytest.raises(error, match=message):
            LMHeadLogprob(weight, checkpoint=CHECKPOINT)
    with pytest.raises(TypeError, match=r"^weight: is a int; must be a torch.Tensor"):
        LMHeadLogprob(7, checkpoint=CHECKPOINT)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"checkpoint": "nvidia/nano"},
            ValueError,
            r"^checkpoint: is 'nvidia/nano'; must be NAME@REVISION, such as",
        ),
        ({"checkpoint": "a@b@c"}, ValueError, r"^checkpoint: is 'a@b@c'; must be NAME@REVISION"),
        ({"checkpoint": None}, TypeError, r"^checkpoint: is a NoneType; must be NAME@REVISION"),
        ({"device_contract": "auto"}, ValueError, r"^device_contract: is 'auto'; may be 'proven' or 'twin'"),
    ],
)
def test_what_the_operator_does_not_take_is_named(options, error, message):
    with pytest.raises(error, match=message):
        small(**options)


def test_a_device_contract_is_checked_when_it_is_set():
    head = small()
    with pytest.raises(ValueError, match=r"^device_contract: is 'none'; may be 'proven' or 'twin'"):
        head.device_contract = "none"
    assert head.device_contract == "twin" and "device_contract='twin'" in repr(head)
    head.device_contract = "proven"
    with pytest.raises(RuntimeError, match=r"^device_contract: is 'proven', and weight is on cpu"):
        head.logp(HIDDEN, TARGETS)
    refused = head.plan()
    assert refused.provenance["refusals"] == list(refused.refusals)
    with pytest.raises(TypeError, match=r"^p: is no provenance of a request that can run"):
        sb.require_same(refused, small().plan())


@pytest.mark.parametrize("option", [{"contract": "fma"}, {"dtype": torch.float32}, {"device": "cuda"}])
def test_what_the_operator_has_fixed_is_no_option_of_its_plan(option):
    with pytest.raises(
        TypeError, match=rf"^{next(iter(option))}: is an option; the operator has it fixed to"
    ):
        small().plan(**option)


def test_a_weight_that_was_cast_after_construction_is_refused():
    head = small().float()
    with pytest.raises(TypeError, match=r"^weight: is float32; must be bfloat16"):
        head.logp(HIDDEN, TARGETS)


def test_inputs_of_another_shape_or_dtype_are_refused():
    head = small()
    with pytest.raises(TypeError, match=r"^weight: is bfloat16 but hidden is float32"):
        head.logp(HIDDEN.float(), TARGETS)
    with pytest.raises(ValueError, match=r"^hidden: has shape \[2, 3, 39\]; must be \[..., 40\]"):
        head.logp(HIDDEN[..., :39], TARGETS)
    with pytest.raises(TypeError, match="vocab_size"):
        head.logp(HIDDEN, TARGETS, vocab_size=200)


def test_a_cpu_is_refused_unless_the_twin_is_asked_for():
    head = small(device_contract="proven")
    reason = (
        r"^device_contract: is 'proven', and weight is on cpu, which has no tensor cores .* may be 'twin'"
    )
    for call in (head.logp, head.train_logp, head.rollout_logp, head):
        with pytest.raises(RuntimeError, match=reason):
            call(HIDDEN, TARGETS)
    with pytest.raises(RuntimeError, match=reason):
        head.provenance()
    assert not head.plan().can_run and "'twin'" in head.plan().refusals[0]
    assert small().plan().can_run


def test_a_gpu_is_taken_when_its_probe_passed(on_gpu):
    cuda = torch.device("cuda:0")
    assert _strict.device_problem(cuda, "proven") == ""
    assert _strict.device_problem(cuda, "twin").startswith("device_contract: is 'twin', which a cpu computes")


@pytest.mark.usefixtures("on_gpu")
def test_the_compiler_takes_the_verdict_of_the_probe_as_a_constant():
    cuda = torch.device("cuda:0")

    @torch.compile(fullgraph=True, backend="aot_eager")
    def gated(x):
        _strict.require_device(cuda, "proven")
        return x + 1

    assert gated(torch.ones(1)) == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"device_probe": "failed: wide exponents"},
            "the probe of cuda:0 is 'failed: wide exponents'; must have",
        ),
        ({"device_probe": None}, "the probe of cuda:0 is 'not made'; must have passed"),
        ({"refusals": ["contract: is 'tc16'; may be 'fma'"]}, "contract: is 'tc16'; may be 'fma'"),
    ],
)
def test_a_gpu_without_proof_is_refused_with_the_reason(on_gpu, change, reason):
    on_gpu.update(change)
    with pytest.raises(RuntimeError, match=reason):
        _strict.require_device(torch.device("cuda:0"), "proven")
    on_gpu.update(refusals=[], device_probe="passed: 8 products")
    _strict.require_device(torch.device("cuda:0"), "proven")


def test_training_and_rollout_are_one_path_with_the_bits_of_linear_logp():
    head = small()
    expected = sb.linear_logp(HIDDEN, WEIGHT, TARGETS, temperature=0.7)
    trained = head.train_logp(HIDDEN, TARGETS, temperature=0.7)
    rolled = head.rollout_logp(HIDDEN, TARGETS, temperature=0.7)
    assert trained.requires_grad and not rolled.requires_grad
    for values in (trained, rolled, head(HIDDEN, TARGETS, temperature=0.7)):
        assert_same_bits(values.detach(), expected)
    alone = head.rollout_logp(HIDDEN[1, 2:], TARGETS[1, 2:], temperature=0.7)
    assert_same_bits(alone, expected[1, 2:])


def test_options_are_those_of_linear_logp():
    head, buffer = small(), torch.full((2, 3), 5.0)
    options = {"return_lse": True, "return_entropy": True, "ignore_index": 7, "on_invalid": "nan"}
    for actual, expected in zip(
        head.logp(HIDDEN, TARGETS, **options),
        sb.linear_logp(HIDDEN, WEIGHT, TARGETS, **options),
        strict=True,
    ):
        assert_same_bits(actual.detach(), expected)
    rows = torch.tensor([1])
    assert head.rollout_logp(HIDDEN, TARGETS, rows=rows, out=buffer) is buffer
    assert buffer[0, 0] == 5.0 and buffer[0, 1] != 5.0


def test_gradients_reach_the_parameter_of_the_model_and_the_accumulator():
    own = torch.nn.Linear(40, 300, bias=False).bfloat16()
    head = SmallHead(own.weight, **ANY)
    assert head.weight is own.weight
    hidden = HIDDEN.clone().requires_grad_()
    head.logp(hidden, TARGETS).sum().backward()
    expected = torch.autograd.grad(sb.linear_logp(hidden, own.weight, TARGETS).sum(), (hidden, own.weight))
    assert_same_bits(hidden.grad, expected[0])
    assert_same_bits(own.weight.grad, expected[1])
    main_grad = torch.zeros(300, 40)
    own.weight.grad = None
    head.logp(HIDDEN, TARGETS, grad_weight_accumulator=main_grad).sum().backward()
    assert own.weight.grad is None
    assert_same_bits(main_grad.bfloat16(), expected[1])


def test_a_frozen_weight_stays_frozen():
    head = SmallHead(WEIGHT, **ANY)
    assert not head.weight.requires_grad and head.weight.data_ptr() == WEIGHT.data_ptr()
    assert not head.logp(HIDDEN, TARGETS).requires_grad


def test_a_functional_call_differentiates_the_weight_it_is_given():
    head, other = small(), (WEIGHT.float() * 2).bfloat16()

    def loss(weight):
        return torch.func.functional_call(head, {"weight": weight}, (HIDDEN, TARGETS)).sum()

    leaf = other.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sb.linear_logp(HIDDEN, leaf, TARGETS).sum(), leaf)
    assert_same_bits(torch.func.grad(loss)(other), expected)


def test_a_copy_and_a_state_dict_carry_weights_and_checkpoint():
    head = small(checkpoint="my-run@step-3")
    twin = copy.deepcopy(head)
    assert twin.checkpoint == "my-run@step-3" and twin.weight is not head.weight
    twin.load_state_dict({"weight": WEIGHT * 2})
    assert_same_bits(twin.weight.detach(), WEIGHT * 2)


def test_the_compiler_takes_the_module_whole():
    head = small()
    compiled = torch.compile(head, fullgraph=True, backend="aot_eager")
    values = compiled(HIDDEN, TARGETS)
    assert_same_bits(values.detach(), head(HIDDEN, TARGETS).detach())
    values.sum().backward()
    assert head.weight.grad is not None


def test_the_provenance_names_weights_contract_kernels_and_proof():
    recorded = small().provenance(temperature=0.7, memory=1 << 20)
    assert json.loads(json.dumps(recorded)) == recorded
    assert recorded["contract"] == "tc16.v1+row.v1" and recorded["level"] == "cross_device"
    assert recorded["model"] == "nemotron_h" and recorded["checkpoint"] == CHECKPOINT
    assert recorded["fallback"] is False and recorded["device_contract"] == "twin"
    assert (
        recorded["device_probe"] and recorded["gemm_backend"] == recorded["backend"] and recorded["kernels"]
    )
    assert recorded["memory"] == 1 << 20 and recorded["semantics"]["vocab_size"] == 300


def test_rollout_and_audit_agree_whatever_computed_them():
    audit = small().provenance()
    rollout = copy.deepcopy(audit)
    rollout.update(
        device="cuda", device_name="NVIDIA H200", device_contract="proven", device_probe="passed",
        backend="cuda", gemm_backend="sm90", kernels=["linear_logp_forward/sm90"], memory="save",
        samebits="9.9.9",
    )  # fmt: skip
    sb.require_same(rollout, audit)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"checkpoint": "my-run@step-121"}, r"checkpoint: '.*@bf77c31' and 'my-run@step-121'"),
        ({"fallback": True}, r"fallback: False and True"),
        ({"contract": "fma.v1+row.v1"}, r"contract: 'tc16\.v1\+row\.v1' and 'fma\.v1\+row\.v1'"),
        ({"model": "other"}, r"model: 'nemotron_h' and 'other'"),
    ],
)
def test_results_that_need_not_be_equal_are_told_apart(change, field):
    recorded = small().provenance()
    with pytest.raises(ValueError, match=rf"^provenances differ in {field}"):
        sb.require_same(recorded, {**recorded, **change})


def test_options_tell_results_apart():
    head = small()
    with pytest.raises(ValueError, match=r"semantics\.temperature: 1\.0 and 0\.69"):
        sb.require_same(head.provenance(), head.provenance(temperature=0.7))
    head.checkpoint = "my-run@step-1"
    assert head.provenance()["checkpoint"] == "my-run@step-1"


def test_the_real_sizes_run_on_a_cpu():
    weight = torch.randn(1024, 2688, generator=GENERATOR).bfloat16().repeat(128, 1)
    head = LMHeadLogprob(weight, **ANY)
    hidden = torch.randn(2, 2688, generator=GENERATOR).bfloat16() / 50
    targets = torch.tensor([5, 131071])
    values = head.rollout_logp(hidden, targets)
    # Repetitions share their probability: the lse is that of 1024 columns plus ln 128. Two results of some 12
    # with half an ulp (5e-7) each, and sums of exponentials with a relative error of 4e-7.
    part = sb.linear_logp(hidden, weight[:1024], targets % 1024).double() - torch.tensor(128.0).double().log()
    torch.testing.assert_close(values.double(), part, rtol=0, atol=2e-6)


def test_the_example_finds_rollout_and_training_equal():
    example = Path(__file__).parents[2] / "examples/nemotron_head.py"
    environment = {"PYTHONPATH": str(Path(sb.__file__).parents[1]), "PATH": ""}
    run = subprocess.run(
        [sys.executable, example], env=environment, capture_output=True, text=True, check=True
    )
    assert "bits differ between rollout and training: 0 of 4" in run.stdout, run.stdout
    assert "policy ratios: 1.00000000 to 1.00000000" in run.stdout
