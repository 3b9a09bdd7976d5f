"""The sections of a report on small cases, that they notice faults, and that figures are always the same."""

import dataclasses
import json

import matplotlib
import pytest
import torch

import samebits as sb
from samebits import _curvature
from samebits.check import autodiff
from samebits.check.cases import FORMS, PRECISIONS
from samebits.check.methods import METHODS
from samebits.check.op.operators import OPERATORS
from samebits.report import figures
from samebits.report.case import Case
from samebits.report.context import Context, differing
from samebits.report.figures import grid
from samebits.report.identity import checkout
from samebits.report.integers import Integers, fnv1a, hex_words, rounded
from samebits.report.process import Ended
from samebits.report.progress import Lines
from samebits.report.runner import finished
from samebits.report.sections import (
    SECTIONS,
    bench,
    docs,
    golden,
    grpo,
    invariance,
    layouts,
    operators,
    probe,
    training,
)


def run(name, root=None):
    context = Context("cpu", True, 0, root, Lines(1).stage, [], {})
    return list(finished(name, "cpu", SECTIONS[name].cases(context)))


def failed(cases):
    return [case for case in cases if case.status == "failed"]


def test_golden_vectors_are_found_again_and_a_wrong_one_is_seen(monkeypatch):
    cases = run("golden", checkout())
    assert failed(cases) == [] and len(cases) > 70
    assert {case.operator for case in cases} == {"matmul", "logp", "linear_logp", "embedding"}
    true = golden.recorded

    def wrong(folder, name):
        data = true(folder, name)
        for case in data["cases"]:
            for key, value in case.items():
                if key in ("grad_weight", "lse"):
                    case[key] = "0" + value[1:] if value[0] != "0" else "1" + value[1:]
        return data

    monkeypatch.setattr(golden, "recorded", wrong)
    reasons = {case.reason for case in failed(run("golden", checkout()))}
    assert reasons == {"other bits than recorded: grad_weight", "other bits than recorded: lse"}


def test_without_a_checkout_golden_vectors_are_skipped():
    assert {case.status for case in run("golden")} == {"skipped"}


def test_layouts_hold_for_every_operator_and_a_dependence_on_the_batch_is_seen(monkeypatch):
    cases = run("layouts")
    assert failed(cases) == []
    tried = {(case.operator, case.method) for case in cases if case.status == "passed"}
    shared = {"repeat", "chunk", "reorder", "padding", "strides", "threads"}
    assert tried >= {
        (operator, m) for operator in ("logp", "linear_logp", "linear", "embedding") for m in shared
    }
    assert ("linear_logp", "memory") in tried and ("logp", "rows=") in tried
    true = sb.logp

    def depends(logits, targets, **options):
        found = true(logits, targets, **options)
        return found._replace(logp=found.logp + len(logits) * 2.0**-10)

    monkeypatch.setattr(sb, "logp", depends)
    monkeypatch.setattr(layouts, "DTYPES", {"fp32": torch.float32})
    seen = {(case.operator, case.method, case.case.partition(":")[0]) for case in failed(run("layouts"))}
    assert seen == {("logp", method, "values") for method in ("chunk", "padding", "rows=")}


def test_training_is_bit_equal_and_a_fault_is_seen(monkeypatch):
    assert failed(run("training")) == []
    true = sb.linear_logp
    monkeypatch.setattr(
        sb, "linear_logp", lambda hidden, *rest, **options: true(hidden * (1 + len(hidden) / 2**9), *rest)
    )
    monkeypatch.setattr(training, "DTYPES", {"fp32": torch.float32})
    monkeypatch.setattr(training, "MODELS", (training.MODELS[0]._replace(dtypes=("fp32",)),))
    assert [case.method for case in failed(run("training"))] == ["padding"]


def test_gradcheck_looks_at_every_operator():
    cases = run("gradcheck")
    assert failed(cases) == []
    assert {case.operator for case in cases} == {"logp", "linear_logp", "matmul", "linear", "embedding"}
    assert {case.order for case in cases} == {1, 2}


def test_errors_are_those_of_the_check(monkeypatch):
    monkeypatch.setattr(autodiff, "PRECISIONS", PRECISIONS[:1])
    monkeypatch.setattr(autodiff, "FORMS", FORMS[:1])
    monkeypatch.setattr(autodiff.finite, "FORMS", FORMS[:1])
    cases = run("errors")
    assert failed(cases) == [] and {case.order for case in cases} == {1, 2, 3}
    assert {case.method for case in cases} >= {*METHODS, "gradcheck", "PyTorch"}
    assert all(0 <= case.value <= case.tolerance for case in cases if case.value is not None)
    monkeypatch.setattr(_curvature, "softmax_jacobian", lambda p, direction: p * direction)
    assert {case.order for case in failed(run("errors"))} == {2, 3}


def test_invariance_holds_and_a_planted_fault_is_found(monkeypatch):
    monkeypatch.setattr(invariance, "TARGETS", ("logp",))
    monkeypatch.setattr(invariance, "DTYPES", {"bf16": torch.bfloat16})
    cases = run("invariance")
    assert failed(cases) == [] and {case.method for case in cases} >= {"batch size", "chunks", "strides"}
    monkeypatch.setattr(
        sb, "logp", lambda *given, **options: torch.log_softmax(given[0], -1)[:, 0] * len(given[0])
    )
    wrong = failed(run("invariance"))
    assert "batch size" in {case.method for case in wrong} and "elements differ" in wrong[0].reason


def test_operators_are_held_to_the_tolerance_file(monkeypatch):
    few = {name: OPERATORS[name] for name in ("linear_logp", "nemotron_h_embedding")}
    few["linear_logp"] = dataclasses.replace(few["linear_logp"], dtypes=("bf16",))
    monkeypatch.setattr(operators, "OPERATORS", few)
    cases = run("operators")
    assert failed(cases) == []
    assert {case.method for case in cases if case.operator == "linear_logp"} == set(operators.JUDGMENTS)
    assert [case.reason for case in cases if case.status == "skipped"] == [
        "minutes on a CPU at the size of the model"
    ]
    true = sb.linear_logp

    def off(*operands, **options):
        found = true(*operands, **options)
        return found + 1e-2 if isinstance(found, torch.Tensor) else found._replace(logp=found.logp + 1e-2)

    monkeypatch.setattr(sb, "linear_logp", off)
    assert {(case.case, case.method) for case in failed(run("operators"))} == {("logp", "forward accuracy")}


def test_the_probe_sees_what_a_plan_does_not_name(monkeypatch):
    command = probe.probe.run

    def few(options, stages):
        options.op, options.path = ["logp"], ["forward and"]
        found = command(options, stages)
        found["paths"][0]["problems"] = found["paths"][0]["problems"] + planted
        return found

    monkeypatch.setattr(probe.probe, "run", few)
    planted = []
    (case,) = run("probe")
    assert (case.status, case.method, case.case) == ("passed", "forward and backward", "fused")
    planted = ["samebits::other ran, which the plan does not name"]
    assert [case.reason for case in failed(run("probe"))] == planted


def test_grpo_is_read_from_what_the_example_writes(monkeypatch, tmp_path):
    layouts_of_run = [{"name": "packed", "differing_losses": 0, "differing_weights": 2}]
    written = {"passed": False, "reason": "other bits: packed", "layouts": layouts_of_run}

    def python(arguments, folder, **environment):
        if "--plant" in arguments:
            return Ended(1, "failed: strict: train_logp_source")
        (tmp_path / arguments[arguments.index("--json") + 1]).write_text(json.dumps(written))
        return Ended(1, "failed")

    monkeypatch.setattr(grpo, "python", python)
    cases = run("grpo", checkout())
    found = [(case.case, case.method, case.status, case.value) for case in cases if case.dtype == "bf16"]
    assert found == [
        ("strict", "every log-prob is samebits'", "failed", None),
        ("losses", "packed", "passed", 0),
        ("weights", "packed", "failed", 2),
        ("log-probs planted from elsewhere", "planted", "passed", None),
    ]
    assert {case.status for case in run("grpo")} == {"skipped"}


def test_documentation_is_built_or_skipped_with_the_reason(monkeypatch):
    monkeypatch.setattr(docs, "find_spec", lambda name: None if name == "mkdocs" else name)
    assert [case.reason for case in run("docs", checkout())] == ["not installed: mkdocs"]
    monkeypatch.setattr(docs, "find_spec", lambda name: name)
    monkeypatch.setattr(docs, "python", lambda *given, **environment: Ended(1, "WARNING: a link"))
    assert [(case.status, case.reason) for case in run("docs", checkout())] == [("failed", "WARNING: a link")]


def test_the_benchmark_measures_and_names_who_is_missing(monkeypatch):
    monkeypatch.setattr(bench, "PLAN", ((("logp",), ("fwd",)),))
    cases = run("bench")
    by_name = {case.method: case for case in cases}
    assert by_name["samebits"].status == "passed" and by_name["samebits"].unit == "ms"
    assert by_name["Liger"].status == "skipped" and by_name["Liger"].reason
    monkeypatch.setattr(bench, "BUDGET", -1.0)
    assert [(case.status, case.reason) for case in run("bench")] == [
        ("skipped", "the -1 s of this section were over")
    ]


def test_the_integers_are_those_of_the_golden_files():
    # SplitMix64 of seed 0, as published.
    assert [word % 2**64 for word in Integers(0).words(2).tolist()] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
    ]
    one, many = Integers(5), Integers(5)
    assert torch.equal(many.normal(7), torch.cat([one.normal(1) for _ in range(7)]))
    assert fnv1a(b"a") == "af63dc4c8601ec8c" and hex_words(torch.tensor([1.0])) == ["3f800000"]
    just_above_a_tie = torch.tensor([1 + 2.0**-8 + 2.0**-40], dtype=torch.float64)
    assert rounded(just_above_a_tie, torch.bfloat16).item() == 1 + 2.0**-7
    assert rounded(-just_above_a_tie, torch.bfloat16).item() == -1 - 2.0**-7


def test_bits_are_compared_not_values():
    assert differing(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0])) == 1
    assert differing(torch.tensor([torch.nan]), torch.tensor([torch.nan])) == 0
    with pytest.raises(ValueError, match="cannot be compared"):
        differing(torch.zeros(2), torch.zeros(3))


def cases_to_draw():
    yield Case("errors", "logp, dense", "logp", "fp32", "reverse", 1, "cpu", "passed", 1e-7, 1e-5, 0.01)
    yield Case("errors", "logp, dense", "logp", "fp32", "forward", 1, "cpu", "passed", 0.0, 1e-5, 0.0)
    yield Case("errors", "logp, dense", "logp", "bf16", "forward", 2, "cpu", "failed", 1.0, 1e-2, 100.0)
    yield Case("layouts", "values", "logp", "fp32", "repeat", None, "cpu", "passed", 0, 0)
    yield Case("layouts", "values", "logp", "bf16", "repeat", None, "cpu", "failed", 3, 0)
    yield Case("layouts", "values", "logp", "bf16", "chunk", status="skipped", reason="why")


def test_figures_have_the_same_bits_whatever_was_drawn_before(monkeypatch):
    few = {name: figures.FIGURES[name] for name in ("errors", "layouts")}
    monkeypatch.setattr(figures, "FIGURES", few)
    first = figures.draw_all(list(cases_to_draw()))
    with matplotlib.rc_context({"font.size": 30, "svg.hashsalt": None, "figure.facecolor": "red"}):
        assert figures.draw_all(list(cases_to_draw())) == first
    others = figures.draw_all(list(cases_to_draw())[:-2])
    assert others["layouts.png"] != first["layouts.png"] and others["errors.svg"] == first["errors.svg"]


def test_cells_say_zero_share_failure_and_nothing():
    passed = Case(status="passed", value=0, tolerance=0)
    assert grid.look([passed])[0] == "0"
    assert grid.look([passed, passed._replace(status="failed", value=2)])[:2] == ("1 of 2", grid.FAILED)
    assert grid.look([passed._replace(value=1e-9, tolerance=1e-8, share=0.1)])[0] == "0.10"
    for nothing in ([], [Case(status="skipped", reason="why")]):
        assert grid.look(nothing)[:2] == ("", grid.UNTESTED)
