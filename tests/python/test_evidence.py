"""Evidence from GPUs, checked on this CPU: recorded sample rows are computed again and compared in bits."""

import copy
import json
import sys
import warnings
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from evidence import (  # noqa: E402
    arithmetic,
    bits,
    cases,
    embedding,
    head_cases,
    head_records,
    head_repeats,
    heads,
    inputs,
    machine,
    operators,
    products,
    records,
    verify,
)

FOLDERS = sorted(path.parent for path in (ROOT / "evidence").glob("*/bits.json"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_cpu_gives_the_recorded_bits_of_the_gpu(folder):
    recorded = verify.recorded_cases(folder)
    assert len(recorded) == len(cases.cases())
    for record in recorded:
        assert not any(record["rows_that_differ_from_the_cpu"].values())
        assert verify.differing_samples(record) == []


def test_the_cpu_gives_the_recorded_products_of_the_gpu():
    for path in sorted((ROOT / "evidence").glob("*/products.json")):
        for record in verify.recorded_products(path.parent):
            assert products.problems(record) == []
            assert verify.differing_product_samples(record) == []


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_a_product_is_sampled_from_its_own_lines(dtype, layout):
    a_case = products.ProductCase("test", 5, 40, 100, 60, dtype, layout=layout)
    whole = products.multiply(a_case, *products.operands(a_case, torch.arange(40), torch.arange(60)))
    record = {"case": vars(a_case).copy(), "sample": products.sample(a_case, "cpu")}
    assert verify.differing_product_samples(record) == []
    digits = 2 * whole.element_size()
    first = int(bits.words(whole)[0, 0]) & ((1 << 4 * digits) - 1)
    text = record["sample"][0]
    assert text.startswith(f"{first:0{digits}x} ")
    record["sample"][0] = ("1" if text[0] != "1" else "2") + text[1:]
    (found,) = verify.differing_product_samples(record)
    assert "sampled row 0: recorded" in found


@pytest.mark.parametrize(
    "path", sorted((ROOT / "evidence").glob("*/embedding.json")), ids=lambda p: p.parent.name
)
def test_the_cpu_gives_the_recorded_rows_of_the_embeddings_gradient(path):
    recorded = records.read(path)
    assert recorded["problems"] == [] and len(recorded["cases"]) == len(embedding.cases())
    for record in recorded["cases"]:
        assert not any(record["rows_that_differ_from_the_cpu"].values())
        assert embedding.differing_samples(record) == []


def test_an_embedding_record_is_checked_row_by_row():
    for case in embedding.cases(quick=True):
        record = {"case": case._asdict(), "samples": {}}
        ids = case.ids("cpu")
        upstream = case.rows("direction", torch.arange(case.count))
        gradient = torch.ops.samebits.embedding_backward(ids, upstream, case.vocab)
        for row in embedding.sampled(case, ids):
            record["samples"][str(row)] = embedding.digest(gradient[row])
        assert embedding.differing_samples(json.loads(json.dumps(record))) == []
        assert embedding.worst_share(gradient, ids, upstream) <= 1
        record["samples"][str(row)] = "0" * 64
        assert len(embedding.differing_samples(record)) == 1


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_evidence_of_older_sources_is_reported(folder):
    reported = verify.staleness(folder)
    if reported:
        warnings.warn(reported, stacklevel=1)
    for path in folder.glob("*.json"):
        assert len(records.read(path)["run"]["source_sha256"]) == 64


def case(dtype="bfloat16", **changes):
    """A small case."""
    arguments = {"name": "test", "seed": 5, "rows": 200, "vocab": 300, "dtype": dtype} | changes
    return inputs.Case(**arguments)


def record_on_cpu(a_case):
    """What a GPU would record, computed here."""
    return {
        "case": vars(a_case).copy(),
        "samples": bits.sample(a_case, bits.sampled_rows(a_case), "cpu"),
    }


@pytest.mark.parametrize("dtype", cases.DTYPES)
def test_a_record_survives_json_and_agrees(dtype):
    record = json.loads(json.dumps(record_on_cpu(case(dtype, options={"temperature": 0.7}))))
    assert verify.differing_samples(record) == []


@pytest.mark.parametrize("name", ["logp", "row_sum", "gradient", "curvature_first_middle_last"])
def test_one_wrong_digit_is_found_and_named(name):
    record = record_on_cpu(case())
    spoiled = copy.deepcopy(record)
    text = spoiled["samples"][3][name]
    spoiled["samples"][3][name] = ("1" if text[0] != "1" else "2") + text[1:]
    (found,) = verify.differing_samples(spoiled)
    assert f"row {record['samples'][3]['row']} {name}: recorded" in found


def test_rows_can_be_made_one_by_one():
    a_case = case()
    whole = operators.outputs(a_case, inputs.make(a_case, torch.arange(a_case.rows)))
    for row in (0, 17, 199):
        for name, value in operators.outputs(a_case, inputs.make(a_case, torch.tensor([row]))).items():
            assert bits.differing_rows(value, whole[name][row : row + 1]) == 0, name


def test_the_inputs_hold_every_kind_of_row():
    a_case = case("float16", rows=2000)
    batch = inputs.make(a_case, torch.arange(2000))
    logits = batch.logits.double()
    finite = logits.isfinite()
    assert logits.isnan().any() and (logits == torch.inf).any() and (logits == -torch.inf).all(1).any()
    assert (logits.amax(1) == logits.amin(1))[finite.all(1)].any()
    assert ((logits != 0) & (logits.abs() < 2**-14)).any()  # subnormal
    assert {-100, 300} < set(batch.targets.tolist())
    plain = inputs.make(case(adversarial=False), torch.arange(200)).logits.double()
    assert 4.2 < plain.std() < 5.0  # 4 times 1.155


def test_the_source_digest_sees_names_and_contents(tmp_path):
    for folder in ("src", "include", "bindings"):
        (tmp_path / folder).mkdir()
    (tmp_path / "src" / "a.h").write_text("1")
    first = machine.source_digest(tmp_path)
    (tmp_path / "src" / "a.h").write_text("2")
    second = machine.source_digest(tmp_path)
    (tmp_path / "src" / "a.h").rename(tmp_path / "src" / "b.h")
    assert len({first, second, machine.source_digest(tmp_path)}) == 3


def test_the_cpu_gives_the_recorded_rows_and_columns_of_heads():
    for path in sorted((ROOT / "evidence").glob("*/heads.json")):
        recorded = records.read(path)
        assert len(recorded["cases"]) == len(head_cases.cases())
        assert len(recorded["repeats"]) == len(head_repeats.repeats())
        assert [p for record in recorded["repeats"] for p in head_repeats.problems(record)] == []
        for record in recorded["cases"]:
            assert head_records.problems(record) == []
            assert head_records.differing_samples(record) == []


def test_a_record_of_a_head_is_checked_row_by_row_and_column_by_column():
    for case in head_cases.cases(quick=True):
        record = json.loads(json.dumps(heads.record(case, "cpu")))
        assert head_records.problems(record) == [] and head_records.differing_samples(record) == []
        record["columns"][5] = record["samples"]["grad_hidden"][1] = "0" * 32
        assert len(head_records.differing_samples(record)) == 2
        statistics = record["statistics"]
        statistics["row_sum"] = statistics["row_entropy_sum"]
        found = head_records.differing_samples(record)
        assert f"{case.name} row_sum: not the statistics of the recorded digest" in found


@pytest.fixture(scope="module")
def head_record():
    """What a machine of one CPU would record of a head."""
    return json.loads(json.dumps(heads.record(head_cases.cases(quick=True)[1], "cpu")))


def test_every_count_of_a_head_is_wanted(head_record):
    case = head_cases.Case(**head_record["case"])
    assert head_records.counted(case) == list(head_record["rows_that_differ_on_the_gpu"])
    for part in ("rows_that_differ_from_the_cpu", "rows_that_differ_on_the_gpu"):
        for name in head_record[part]:
            record = copy.deepcopy(head_record)
            del record[part][name]
            assert head_records.problems(record) == [f"{case.name} lacks {part}, {name}"]
            record[part][name] = 3
            assert head_records.problems(record) == [f"{case.name}: 3 rows differ, {name}"]


@pytest.mark.parametrize(
    ("tear", "lacks"),
    [
        (lambda r: r.pop("rows_that_differ_on_the_gpu"), "rows_that_differ_on_the_gpu, batch of 1; "),
        (lambda r: r["samples"].pop("logp"), "samples, logp"),
        (lambda r: r["samples"]["lse"].pop(), "samples, lse"),
        (lambda r: r.pop("samples"), "samples, logp; "),
        (lambda r: r["sha256"].pop("row_sum"), "sha256, row_sum"),
        (lambda r: r["columns"].pop(), "columns"),
        (lambda r: r.pop("statistics"), "statistics, row_max; statistics, row_sum; "),
        (lambda r: r["statistics"].update(row_sum=r["statistics"]["row_sum"][:40]), "statistics, row_sum"),
        (lambda r: r["statistics"].update(row_sum=r["statistics"]["row_max"]), "statistics, row_sum"),
    ],
)
def test_a_torn_record_of_a_head_is_refused_in_one_line(head_record, tear, lacks):
    record = copy.deepcopy(head_record)
    tear(record)
    (line,) = head_records.differing_samples(record)
    assert line.startswith(f"float32 lacks {lacks}") and head_records.problems(record) == [line]


def test_a_record_without_its_case_or_count_is_refused():
    assert head_records.differing_samples({}) == head_records.problems({"case": {"name": "x"}})
    assert head_repeats.problems({"rows": 9}) == ["a record of repeats lacks its count: {'rows': 9}"]


def test_a_torn_file_is_refused_in_one_line(tmp_path):
    whole = json.dumps({"run": {"source_sha256": "0"}, "cases": []})
    for content in (whole[:-3], "", "3", "[" * 100000):
        (tmp_path / "bits.json").write_text(content)
        for read in (verify.recorded_cases, verify.staleness):
            with pytest.raises(records.TornRecord, match=r"bits\.json: ") as caught:
                read(tmp_path)
            assert "\n" not in str(caught.value)


def test_a_row_of_a_head_that_depends_on_its_layout_is_counted():
    case = head_cases.cases(quick=True)[0]
    every, weight = torch.arange(case.rows), case.weight(torch.arange(case.vocab))
    whole = heads.forward(case, weight, every)
    grad_hidden = heads.backward(case, weight, every, case.targets(every), whole, (True, False))[0]
    counts = heads._layouts(case, weight, whole, grad_hidden)
    assert list(counts.values()) == [0, 0, 0] and "leading shape [3, 100]" in counts
    whole["lse"] += 1
    grad_hidden[:] = 3
    assert heads._layouts(case, weight, whole, grad_hidden)["leading shape [3, 100]"] > 500
    assert all(count > 150 for count in heads._layouts(case, weight, whole, grad_hidden).values())


def test_arithmetic_that_must_agree_and_does_not_is_a_problem(monkeypatch):
    alike = arithmetic.record("cpu", quick=True)
    assert alike["problems"] == [] and not any(line["differing"] for line in alike["operators"])
    assert all(line["differing"] == [0] * arithmetic.STEPS for line in alike["optimizers"])

    calls = iter(range(1, 1000))
    rounded = arithmetic.root
    monkeypatch.setattr(arithmetic, "root", lambda x: rounded(x) * (1 + 2.0**-20 * (next(calls) % 2)))
    name = "sqrt(b), in fp64, rounded to fp32, fp32"
    assert arithmetic.record("cpu", quick=True)["problems"] == [f"{name}: 10000 elements differ"]


def test_what_must_agree_on_two_devices_does_in_the_recorded_arithmetic():
    for path in sorted((ROOT / "evidence").glob("*/arithmetic.json")):
        found = records.read(path)
        assert found["problems"] == []
        counts = {(line["name"], line["dtype"]): line["differing"] for line in found["operators"]}
        assert all(counts[name, dtype] == 0 for name in arithmetic.MUST_AGREE for dtype in ("fp32", "fp64"))
        steps = {line["name"]: line["differing"] for line in found["optimizers"]}
        assert steps[arithmetic.OF_THE_EXAMPLE] == [0] * arithmetic.STEPS


def test_the_recorded_audits_find_the_batch_in_others_and_not_in_samebits():
    for path in sorted((ROOT / "evidence").glob("*/invariance.json")):
        audits = records.read(path)["audits"]
        ours = [audit for audit in audits if audit["target"] == "linear_logp"]
        assert ours and all(audit["passed"] and audit["refusals"] == [] for audit in ours)
        assert all(line["elements"] > 0 == line["differing"] for audit in ours for line in audit["lines"])
        for target in ("torch.mm", "cce"):
            theirs = [audit for audit in audits if audit["target"] == target]
            assert theirs and all(not audit["passed"] and audit["smallest"] for audit in theirs)
