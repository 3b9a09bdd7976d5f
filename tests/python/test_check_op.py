"""`python -m samebits.check op`: what passes, what it prints, and which fault each judgment notices."""

import json

import pytest
import torch

import samebits
from faulty import bf16_sums
from samebits.check.cli import main
from samebits.check.op import exact_logp, operators
from samebits.check.op.operators import DTYPES, OPERATORS
from samebits.contracts import JUDGMENTS, PACKAGED
from samebits.models import _strict, nemotron_h

SMALL = ("--vocab", "300", "--hidden", "64", "--seq", "5")
STRICT = {"nemotron_h_lm_head_logprob", "nemotron_h_embedding"}


def run_json(capsys, *options: str) -> tuple[int, dict]:
    status = main(["op", *SMALL, *options, "--json"])
    return status, json.loads(capsys.readouterr().out)


def failed(data: dict) -> set[tuple[str, str]]:
    """(judgment, output) of everything that failed."""
    return {(line["judgment"], line["output"]) for result in data["results"] for line in result["lines"]
            if not line["passed"]}  # fmt: skip


def refusal(capsys, *options: str) -> str:
    """What a call says that could not run, in its one line."""
    assert main(["op", *SMALL, *options]) == 2
    said = capsys.readouterr()
    (line,) = said.err.strip().splitlines()
    return line.removeprefix("samebits.check: ")


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        (("--op", "logp", "--vocab", "2147483647", "--batch", "2000000"), "--batch 2000000 --seq 5"),
        (("--op", "ratio", "--batch", "2147483647", "--seq", "2147483647"), "--batch 2147483647"),
        (("--op", "matmul", "--vocab", "2000000000", "--hidden", "2000000000"), "--batch 2 --seq 5"),
        (("--batch", "2147483647", "--seq", "2147483647"), "--batch 2147483647 --seq 2147483647"),
    ],
    ids=["logp", "ratio", "matmul", "all"],
)
def test_sizes_that_no_memory_holds_are_named(capsys, options, sizes):
    said = refusal(capsys, *options, "--dtype", "fp32")
    assert said.startswith(sizes) and " fp32 finds no memory on cpu (" in said


def test_every_operator_and_dtype_passes_every_judgment(capsys):
    status, data = run_json(capsys, "--check-grad")
    assert status == 0 and data["passed"] is True and data["profile"] == "derived"
    assert data["samebits"] == samebits.__version__ and data["check_grad"] is True
    found = {(result["op"], result["dtype"]) for result in data["results"]}
    assert found == {(o.name, d) for o in OPERATORS.values() for d in o.dtypes if not o.model}
    assert {skipped["op"] for skipped in data["skipped"]} == STRICT
    for result in data["results"]:
        operator = OPERATORS[result["op"]]
        wanted = {
            (judgment, name)
            for judgment in JUDGMENTS
            for name in (operator.outputs if judgment.startswith("forward") else operator.gradients)
        }
        assert {(line["judgment"], line["output"]) for line in result["lines"]} == wanted
        for line in result["lines"]:
            if line["judgment"].endswith("accuracy"):
                assert 0 <= line["share"] <= 1 and line["max_abs"] >= 0 and line["elements"] > 0
                assert {"max_rel", "max_ulp", "tolerance", "floor", "worst", "cell"} <= line.keys()
            else:
                assert line["differing"] == 0 and line["elements"] > 0
                trials = {trial["trial"] for trial in line["trials"]}
                assert {"repeat", "leading shape"} <= trials


@pytest.mark.parametrize("name", sorted(STRICT))
def test_strict_operators_pass_as_twins_on_a_cpu(capsys, monkeypatch, name):
    for model in (nemotron_h.LMHeadLogprob, nemotron_h.Embedding):
        monkeypatch.setattr(model, "geometry", _strict.Geometry(vocab=300, hidden=64))
    status, data = run_json(capsys, "--op", name, "--check-grad")
    assert status == 0 and data["skipped"] == []
    (result,) = data["results"]
    assert result["dtype"] == "bf16" and result["shape"]["vocab"] == 300


def test_the_field_profile_takes_bf16_logits_and_the_derived_one_does_not(capsys):
    head = ("--op", "linear_logp", "--dtype", "bf16", "--candidate", "torch")
    status, data = run_json(capsys, *head)
    assert status == 1 and ("forward_accuracy", "logp") in failed(data)
    status, data = run_json(capsys, *head, "--profile", "field")
    assert status == 0
    (line,) = (x for x in data["results"][0]["lines"] if x["judgment"] == "forward_accuracy")
    assert line["tolerance"] == 0.05 and 1e-4 < line["max_abs"] < 0.05


def test_backends_contracts_and_functions_are_candidates(capsys):
    for words in (("--candidate", "scalar"), ("--candidate", "faulty:logp"), ("--candidate", "torch")):
        status, _ = run_json(capsys, "--op", "logp", "--dtype", "fp32", "--check-grad", *words)
        assert status == 0, words
    status, data = run_json(capsys, "--op", "matmul", "--dtype", "bf16", "--contract", "fma")
    assert status == 0 and data["results"][0]["runs"]["contract"] == "fma.v1"
    status, data = run_json(capsys, "--op", "logp", "--dtype", "fp32", "--candidate", "faulty:all_outputs")
    accuracy = [x["output"] for x in data["results"][0]["lines"] if x["judgment"] == "forward_accuracy"]
    assert status == 0 and sorted(accuracy) == ["entropy", "logp", "lse"]


def test_normalized_dim_is_another_name_of_hidden(capsys):
    _, data = run_json(capsys, "--op", "matmul", "--dtype", "fp32", "--normalized-dim", "32")
    assert data["results"][0]["shape"] == {"batch": 2, "seq": 5, "vocab": 300, "hidden": 32}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ("perturbed", {("forward_accuracy", "logp")}),
        ("wrong_slope", {("gradient_accuracy", "logits")}),
        ("batch_dependent", {("forward_invariance", "logp"), ("gradient_invariance", "logits")}),
        ("not_repeatable", {("forward_invariance", "logp")}),
        ("graph_dependent", {("forward_invariance", "logp")}),
    ],
)
def test_a_planted_fault_fails_the_judgment_it_is_about_and_no_other(capsys, candidate, expected):
    status, data = run_json(
        capsys, "--op", "logp", "--dtype", "fp32", "--check-grad", "--candidate", f"faulty:{candidate}"
    )
    assert status == 1 and failed(data) == expected


def test_the_trial_and_both_values_of_a_difference_are_named(capsys):
    main(["op", *SMALL, "--op", "logp", "--dtype", "fp32", "--candidate", "faulty:batch_dependent"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "failed: logp, fp32, invariance of logp:" in printed and "split: " in printed
    assert "(0x" in printed
    _, data = run_json(capsys, "--op", "logp", "--dtype", "fp32", "--check-grad", "--candidate",
                       "faulty:graph_dependent")  # fmt: skip
    trials = {t["trial"] for x in data["results"][0]["lines"] if "trials" in x for t in x["trials"]
              if t["differing"]}  # fmt: skip
    assert trials == {"with gradients"}


def test_a_sum_that_depends_on_the_order_fails_by_a_permutation(capsys):
    status, data = run_json(
        capsys, "--op", "masked_sum", "--dtype", "fp32", "--candidate", "faulty:order_dependent_sum",
        "--seq", "60",
    )  # fmt: skip
    assert status == 1 and ("forward_invariance", "sum") in failed(data)


def test_a_bf16_accumulator_fails_accuracy_alone(capsys):
    status, data = run_json(
        capsys, "--op", "linear_logp", "--dtype", "bf16", "--candidate", "faulty:bf16_head"
    )
    assert status == 1 and failed(data) == {("forward_accuracy", "logp")}
    (line,) = (x for x in data["results"][0]["lines"] if not x["passed"])
    assert line["share"] > 10


def test_a_reference_of_logits_rounded_to_bf16_is_noticed(capsys, monkeypatch):
    exact = exact_logp.Row

    class Narrow(exact):
        def __init__(self, logits, targets):
            super().__init__(logits.bfloat16().double(), targets)

    monkeypatch.setattr(exact_logp, "Row", Narrow)
    status, data = run_json(capsys, "--op", "linear_logp", "--dtype", "bf16")
    assert status == 1
    assert failed(data) == {("forward_accuracy", name) for name in ("logp", "lse", "entropy")}


def test_a_reference_accumulated_in_bf16_is_noticed(capsys, monkeypatch):
    class Narrow(exact_logp.Head):
        def __init__(self, hidden, weight, targets, upstream):
            super().__init__(hidden, weight, targets, upstream)
            self.row = exact_logp.Row(bf16_sums(hidden, weight).double(), targets)

    monkeypatch.setattr(operators, "Head", Narrow)
    assert bf16_sums(torch.ones(1, 600), torch.ones(1, 600)).item() == 256  # what such a sum is worth
    status, data = run_json(capsys, "--op", "linear_logp", "--dtype", "bf16")
    assert status == 1
    assert failed(data) == {("forward_accuracy", name) for name in ("logp", "lse", "entropy")}


def test_a_wrong_cell_fails_and_is_named(capsys, tmp_path):
    contract = json.loads(PACKAGED.read_text())
    cell = contract["profiles"]["derived"]["gradient_accuracy"]["gemm"]["operand"]["bf16"]
    cell["rtol"], cell["terms"] = "u / 8", {}
    path = tmp_path / "tolerance.json"
    path.write_text(json.dumps(contract))
    words = ("--op", "matmul", "--check-grad", "--tolerances", str(path))
    status, data = run_json(capsys, *words, "--dtype", "bf16")
    assert status == 1 and failed(data) == {("gradient_accuracy", "a"), ("gradient_accuracy", "b")}
    cells = {line["cell"] for line in data["results"][0]["lines"] if not line["passed"]}
    assert cells == {"profiles.derived.gradient_accuracy.gemm.operand.bf16"}
    main(["op", *SMALL, *words, "--dtype", "bf16"])
    printed = "".join(capsys.readouterr().out.split())
    assert "profiles.derived.gradient_accuracy.gemm.operand.bf16" in printed
    assert run_json(capsys, *words, "--dtype", "fp32")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--candidate avx9", "--candidate avx9: is unknown; may be auto, "),
        ("--candidate cuda-sm90", "--candidate cuda-sm90: cannot run logp: "),
        ("--candidate faulty:no_such", "--candidate faulty:no_such: faulty has no no_such"),
        ("--candidate faulty:not_a_function", "is a int; must be a function"),
        ("--candidate no_such_module:f", "no_such_module cannot be imported"),
        ("--candidate faulty:raises", "cannot run logp: NotImplementedError: this kernel wants a tile of 64"),
        ("--candidate faulty:wrong_shape", "logp is torch.float32 []; must be floating [10]"),
        ("--candidate faulty:wrong_name", "it returned 'loss', a Tensor; may be tensors named logp, lse"),
        ("--candidate faulty:wrong_kind", "it returned a list; must be a tensor"),
        ("--candidate faulty:no_gradient --check-grad", "has no gradient of logp: "),
        ("--profile tight", "profile tight: is not in tolerance.json; may be derived, field, torch"),
        ("--tolerances no/such.json", "--tolerances no/such.json: cannot be read: No such file"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line(capsys, words, said):
    assert said in refusal_line(capsys, words)


def refusal_line(capsys, words: str) -> str:
    assert main(["op", *SMALL, "--op", "logp", "--dtype", "fp32", "--json", *words.split()]) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_sizes_and_dtypes_of_a_model_are_fixed(capsys):
    said = refusal(capsys, "--op", "nemotron_h_embedding", "--vocab", "131072")
    assert said == "--hidden 64: must be 2688 for nemotron_h_embedding"
    said = refusal(capsys, "--op", "nemotron_h_embedding", "--dtype", "fp32")
    assert said == "--dtype fp32: nemotron_h_embedding takes bf16"
    assert "needs --op" in refusal(capsys, "--candidate", "faulty:logp")


@pytest.mark.parametrize(
    "words", [["--vocab", "0"], ["--seq", "many"], ["--op", "softmax"], ["--dtype", "fp8"]]
)
def test_bad_options_exit_with_status_2(capsys, words):
    with pytest.raises(SystemExit) as stop:
        main(["op", *words])
    assert stop.value.code == 2 and words[0] in capsys.readouterr().err


def test_the_list_has_every_operator_candidate_and_cell(capsys):
    assert main(["op", "--list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [entry["op"] for entry in data["operators"]] == list(OPERATORS)
    for entry in data["operators"]:
        assert entry["candidates"][0] == "auto" and "torch" in entry["candidates"]
    assert {(cell["judgment"], cell["dtype"]) for cell in data["cells"]} == {
        (judgment, dtype) for judgment in JUDGMENTS for dtype in DTYPES
    }
    assert all(cell["source"] for cell in data["cells"])
    assert main(["op", "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in OPERATORS) and "(sum16) carried" in printed


def test_one_token_is_enough(capsys):
    status, _ = run_json(capsys, "--dtype", "bf16", "--batch", "1", "--seq", "1", "--check-grad")
    assert status == 0
