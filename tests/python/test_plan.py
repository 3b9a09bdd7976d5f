"""plan, provenance, require_same and backends."""

import copy
import json

import pytest
import torch

import samebits as sb
from samebits import _native
from samebits._backends import choices

LOGITS, TARGETS = torch.zeros(4, 50), torch.zeros(4, dtype=torch.long)


def test_a_plan_names_contract_level_backend_and_kernels():
    plan = sb.plan("logp", LOGITS.bfloat16(), TARGETS, temperature=0.7, backend="scalar")
    assert plan.can_run and plan.op == "logp" and plan.contract == "row.v1" and plan.level == "cross_device"
    assert plan.backend == "scalar"
    operators = ("logp_forward", "logp_backward", "probability", "row_sum")
    assert plan.kernels == tuple(f"{operator}/scalar" for operator in operators)
    assert plan.provenance["dtype"] == "bfloat16" and plan.provenance["samebits"] == sb.__version__
    assert plan.provenance["semantics"] == {
        "temperature": float(torch.tensor(0.7)), "vocab_size": 50, "rows": False, "keep_unselected": False,
        "ignore_index": None, "on_invalid": "zero",
    }  # fmt: skip


def test_contracts_follow_the_dtype():
    assert sb.plan("logp", dtype=torch.float64).contract == "row64.v1"
    assert sb.plan("logp", LOGITS, precision="fp64").contract == "row64.v1"
    assert sb.plan("matmul", LOGITS, LOGITS.t()).contract == "fma.v1"
    assert sb.plan("linear_logp", LOGITS, LOGITS, TARGETS).contract == "fma.v1+row.v1"
    assert sb.plan("linear_logp", dtype=torch.float64).contract == "fma64.v1+row64.v1"
    assert sb.plan("matmul", dtype=torch.bfloat16, contract="fma").contract == "fma.v1"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"op": "logp", "device": "meta"}, "device: is meta; may be cpu or cuda"),
        ({"op": "logp", "backend": "abacus"}, "backend: is 'abacus'; may be"),
        ({"op": "logp", "temperature": 0.0}, "temperature: is 0"),
        ({"op": "logp", "vocab_size": 0}, "vocab_size: is 0; must be 1 to"),
        ({"op": "conv"}, "op: is 'conv'; may be 'logp', 'linear_logp', 'matmul' or 'embedding'"),
        ({"op": "matmul", "contract": "tc16"}, "contract: is 'tc16' with float32 operands"),
    ],
    ids=lambda value: value["op"] if isinstance(value, dict) else None,
)
def test_a_plan_that_cannot_run_says_why(arguments, reason):
    plan = sb.plan(arguments.pop("op"), **arguments)
    assert not plan.can_run and (plan.kernels == () or "device" not in reason)
    assert any(reason in refusal for refusal in plan.refusals), plan.refusals


def test_operands_of_an_unknown_operator_are_left_alone():
    only = "op: is 'linear'; may be 'logp', 'linear_logp', 'matmul' or 'embedding'"
    assert sb.plan("linear", LOGITS, LOGITS.t()).refusals == (only,)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"op": 3}, TypeError, "^op: is a int; must be a name"),
        ({"op": "matmul", "contract": None}, TypeError, "^contract: is a NoneType; must be a name"),
        ({"op": "logp", "temperature": "hot"}, TypeError, "^temperature: is a str; may be a number"),
        ({"op": "logp", "temperature": 10**400}, ValueError, "^temperature: is beyond float64"),
        ({"op": "logp", "on_invalid": ""}, ValueError, "^on_invalid: is ''; may be 'zero'"),
        (
            {"op": "logp", "contract": "fma"},
            TypeError,
            "^contract: is no option of logp; may be temperature, ",
        ),
        (
            {"op": "matmul", "temperature": 0.7},
            TypeError,
            "^temperature: is no option of matmul; may be contr",
        ),
        ({"op": "embedding", "memory": 3}, TypeError, "^memory: is no option of embedding"),
        ({"op": "linear_logp", "out_dtype": torch.float32}, TypeError, "^out_dtype: is no option of linear"),
    ],
)
def test_arguments_no_call_takes_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        sb.plan(**arguments)


@pytest.fixture
def without_cuda_library(monkeypatch):
    monkeypatch.setattr(_native, "cuda_problem", "this build of samebits has no CUDA library")


@pytest.mark.usefixtures("without_cuda_library")
def test_without_its_library_cuda_is_refused_with_the_reason():
    plan = sb.plan("logp", device="cuda")
    assert plan.kernels == () and plan.backend == "" and plan.provenance["device"] == "cuda"
    assert plan.refusals == ("device: is cuda, and this build of samebits has no CUDA library; may be cpu",)
    listed = {backend.name: backend for backend in sb.backends()}
    assert listed["cuda"] == sb.Backend("cuda", False, "this build of samebits has no CUDA library")


@pytest.mark.usefixtures("without_cuda_library")
def test_all_reasons_are_given_at_once():
    plan = sb.plan("matmul", dtype=torch.float32, contract="tc16", device="cuda")
    assert len(plan.refusals) == 2


def test_a_plan_and_the_call_agree():
    for dtype in (torch.float32, torch.bfloat16):
        operands = LOGITS.to(dtype), LOGITS.t().to(dtype)
        for contract in ("auto", "fma", "tc16"):
            plan = sb.plan("matmul", *operands, contract=contract)
            try:
                sb.matmul(*operands, contract=contract)
                ran = True
            except (ValueError, RuntimeError) as error:
                ran = False
                assert str(error) in plan.refusals
            assert plan.can_run == ran


REFUSED = {
    "backend": ("logp", (LOGITS, TARGETS), {"backend": ""}),
    "vocab_size": ("logp", (LOGITS, TARGETS), {"vocab_size": 51}),
    "temperature": ("logp", (LOGITS, TARGETS), {"temperature": 0.0}),
    "logits of int64": ("logp", (LOGITS.long(), TARGETS), {}),
    "targets of float32": ("logp", (LOGITS, TARGETS.float()), {}),
    "targets elsewhere": ("logp", (LOGITS, TARGETS.to("meta")), {}),
    "weight of another dtype": ("linear_logp", (LOGITS, LOGITS.half(), TARGETS), {}),
    "targets of a head": ("linear_logp", (LOGITS, LOGITS, TARGETS.short()), {}),
    "precision": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"precision": "fp64"}),
    "vocab_size of a head": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"vocab_size": 5}),
    "contract": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"contract": "tc16"}),
    "contract's name": ("matmul", (LOGITS, LOGITS.t()), {"contract": "fast"}),
    "out_dtype": ("matmul", (LOGITS, LOGITS.t()), {"out_dtype": torch.bfloat16}),
    "b of another dtype": ("matmul", (LOGITS, LOGITS.t().double()), {}),
    "padding_idx": ("embedding", (TARGETS, LOGITS), {"padding_idx": 4}),
    "padding_idx's type": ("embedding", (TARGETS, LOGITS), {"padding_idx": 1.0}),
    "ids of float32": ("embedding", (TARGETS.float(), LOGITS), {}),
    "targets of other rows": ("logp", (LOGITS, TARGETS[:3]), {}),
    "logits without an axis": ("logp", (LOGITS[0, 0], TARGETS[0]), {}),
    "no columns": ("logp", (LOGITS[:, :0], TARGETS), {}),
    "logits of nine axes": ("logp", (LOGITS.view(*[1] * 7, 4, 50), TARGETS.view(*[1] * 7, 4)), {}),
    "rows of float32": ("logp", (LOGITS, TARGETS), {"rows": torch.ones(2)}),
    "rows of two axes": ("logp", (LOGITS, TARGETS), {"rows": TARGETS.view(2, 2)}),
    "rows in a list": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"rows": [0]}),
    "rows elsewhere": ("logp", (LOGITS, TARGETS), {"rows": TARGETS.to("meta")}),
    "temperature of other rows": ("logp", (LOGITS, TARGETS), {"temperature": torch.ones(3)}),
    "temperature of float16": (
        "linear_logp",
        (LOGITS, LOGITS, TARGETS),
        {"temperature": torch.ones(4).half()},
    ),
    "temperature with a gradient": (
        "logp",
        (LOGITS, TARGETS),
        {"temperature": torch.ones(4).requires_grad_()},
    ),
    "temperature elsewhere": ("logp", (LOGITS, TARGETS), {"temperature": torch.ones(4, device="meta")}),
    "out of float16": ("logp", (LOGITS, TARGETS), {"out": torch.ones(4).half()}),
    "out of other rows": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"out": torch.ones(3)}),
    "out of an input": ("linear_logp", (LOGITS, LOGITS, TARGETS), {"out": LOGITS[:, 0]}),
    "a head that does not fit": ("linear_logp", (LOGITS, LOGITS[:, 1:], TARGETS), {}),
    "a head without rows": ("linear_logp", (LOGITS, LOGITS[:0], TARGETS), {}),
    "a product that does not fit": ("matmul", (LOGITS, LOGITS), {}),
    "a product of a vector": ("matmul", (LOGITS[0], LOGITS.t()), {}),
    "an embedding of one axis": ("embedding", (TARGETS, LOGITS[0]), {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_call_refuses_its_plan_refuses_in_the_same_words(name):
    op, operands, options = REFUSED[name]
    with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
        getattr(sb, op)(*operands, **options)
    plan = sb.plan(op, *operands, **options)
    said, *_ = [r for r in plan.refusals if r.split(":")[0] == str(caught.value).split(":")[0]]
    assert said == str(caught.value)
    assert plan.provenance["refusals"] == list(plan.refusals)


@pytest.mark.parametrize("tensors", [(), (LOGITS,)], ids=["no operand", "one operand"])
def test_options_are_looked_at_where_operands_are_left_out(tensors):
    options = {"rows": torch.ones(2), "temperature": torch.ones(2).half(), "out": [0.0]}
    assert [r.split(":")[0] for r in sb.plan("logp", *tensors, **options).refusals] == [*options]
    fitting = {"rows": TARGETS, "temperature": torch.ones(4), "out": torch.empty(4)}
    assert sb.plan("logp", *tensors, **fitting).can_run


def test_operands_an_operator_does_not_have_are_named():
    with pytest.raises(TypeError, match=r"^tensors: are 3; logp has at most 2, logits, targets$"):
        sb.plan("logp", LOGITS, TARGETS, TARGETS)


def test_provenance_survives_json_and_is_compared_without_what_cannot_change_bits():
    plan = sb.plan("logp", LOGITS, TARGETS, temperature=0.7, ignore_index=-100)
    stored = json.loads(json.dumps(plan.provenance))
    stored.update(backend="cuda", kernels=["logp_forward/sm90"], device="cuda", samebits="9.9.9")
    sb.require_same(plan.provenance, stored)
    sb.require_same(plan, sb.plan("logp", LOGITS[:1], TARGETS[:1], temperature=0.7, ignore_index=-100))


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"temperature": 0.7}, r"semantics\.temperature: 1\.0 and 0\.69"),
        ({"ignore_index": 0}, r"semantics\.ignore_index: None and 0"),
        ({"on_invalid": "nan"}, r"semantics\.on_invalid: 'zero' and 'nan'"),
        ({"vocab_size": 49}, r"semantics\.vocab_size: 50 and 49"),
        ({"rows": TARGETS}, r"semantics\.rows: False and True"),
        ({"precision": "fp64"}, r"contract: 'row\.v1' and 'row64\.v1'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_the_first_differing_field_is_named(options, field):
    with pytest.raises(ValueError, match=rf"^provenances differ in {field}"):
        sb.require_same(sb.plan("logp", LOGITS, TARGETS), sb.plan("logp", LOGITS, TARGETS, **options))


def test_require_same_takes_nothing_for_granted():
    good = sb.plan("logp", LOGITS, TARGETS).provenance
    missing = copy.deepcopy(good)
    del missing["semantics"]["on_invalid"]
    with pytest.raises(ValueError, match=r"semantics\.on_invalid: 'zero' and 'absent'"):
        sb.require_same(good, missing)
    refused = sb.plan("logp", LOGITS, TARGETS, backend="")
    with pytest.raises(TypeError, match=r"^p: is no provenance of a request that can run \(backend: is ''"):
        sb.require_same(json.loads(json.dumps(refused.provenance)), good)
    for bad in (None, {}, [], refused, sb.plan("matmul", contract="tc16")):
        with pytest.raises(TypeError, match=r"^q: is no provenance"):
            sb.require_same(good, bad)


def test_a_plan_says_of_every_backend_why_it_is_taken_or_refused():
    plan = sb.plan("logp", LOGITS, TARGETS)
    assert [choice.name for choice in plan.backends] == [backend.name for backend in sb.backends()]
    (taken,) = (choice for choice in plan.backends if choice.taken)
    assert taken == sb.Choice(plan.backend, True, "the fastest that can run here")
    assert all(choice.reason for choice in plan.backends)
    forced = {choice.name: choice for choice in sb.plan("logp", LOGITS, TARGETS, backend="scalar").backends}
    assert forced["scalar"] == sb.Choice("scalar", True, "asked for by name")
    for name, choice in forced.items():
        if name != "scalar":
            assert not choice.taken and choice.reason


def test_a_gpus_product_engines_are_listed_after_the_backends(monkeypatch):
    monkeypatch.setattr(_native, "cuda_problem", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    engines = {"sm90": "taken", "mma": "taken", "cublaslt": "runs only where it is asked for by name"}
    found = {c.name: c for c in choices("cuda:0", None, "cuda", False, engines)}
    assert list(found)[-4:] == ["cuda", "sm90", "mma", "cublaslt"]
    assert found["cuda"].taken and found["sm90"].taken and not found["cublaslt"].taken
    assert found["sm90"].reason == "the fastest that can run here"
    assert found["mma"].reason == "takes what the ones before it leave"
    assert found["cublaslt"].reason == engines["cublaslt"]
    assert found["scalar"] == sb.Choice("scalar", False, "the operands are on cuda:0")
    named = {c.name: c for c in choices("cuda:0", "mma", "cuda", False, {"mma": "taken"})}
    assert named["mma"] == sb.Choice("mma", True, "asked for by name")
    assert named["cuda"] == sb.Choice("cuda", True, "'mma' is a part of it")
    refused = choices("cuda:0", None, "cuda", True, engines)
    assert not any(choice.taken for choice in refused)


def test_a_refused_plan_takes_no_backend():
    plan = sb.plan("matmul", contract="tc16")
    assert not plan.can_run and not any(choice.taken for choice in plan.backends)
    assert "the request itself is refused" in {choice.reason for choice in plan.backends}


def test_memory_is_recorded_and_cannot_set_results_apart():
    operands = LOGITS.bfloat16(), LOGITS.bfloat16(), TARGETS
    plans = [sb.plan("linear_logp", *operands, memory=memory) for memory in ("save", 1 << 20)]
    assert [plan.provenance["memory"] for plan in plans] == ["save", 1 << 20]
    sb.require_same(*plans)
    with pytest.raises(ValueError, match=r"^memory: is 'much'"):
        sb.plan("linear_logp", *operands, memory="much")


def test_the_dtype_of_a_product_is_compared():
    half = LOGITS.bfloat16(), LOGITS.t().bfloat16()
    plain, wide = sb.plan("matmul", *half), sb.plan("matmul", *half, out_dtype=torch.float32)
    sb.require_same(plain, sb.plan("matmul", *half, out_dtype=torch.bfloat16))
    with pytest.raises(ValueError, match=r"semantics\.out_dtype: 'bfloat16' and 'float32'"):
        sb.require_same(plain, wide)


def test_backends_are_listed_with_reasons():
    listed = {backend.name: backend for backend in sb.backends()}
    assert listed["scalar"].available
    assert listed["cuda"].available == (_native.cuda_problem == "" and torch.cuda.is_available())
    for backend in listed.values():
        assert backend.available != bool(backend.reason)
    assert listed[sb.plan("logp", LOGITS).backend].available


@pytest.mark.parametrize(("op", "name"), [("logp", "logits"), ("linear_logp", "hidden")])
def test_a_first_operand_without_an_axis_is_refused_alone_too(op, name):
    plan = sb.plan(op, torch.tensor(1.0))
    assert plan.refusals == (f"{name}: has no axis; must have at least one",) and not plan.can_run
