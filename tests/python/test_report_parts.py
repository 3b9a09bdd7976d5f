"""`python -m samebits.report`: a finished section is kept for what it says, and is none if it is silent."""

import json
import types

import pytest

from samebits.report import folder as files
from samebits.report.case import Case, from_csv
from samebits.report.cli import main
from samebits.report.figures import FIGURES, draw_all
from samebits.report.sections import SECTIONS


@pytest.fixture
def sections(monkeypatch):
    """Replace the sections by others, and draw one figure."""
    for name in FIGURES.keys() - {"overview"}:
        monkeypatch.delitem(FIGURES, name)
    for name in list(SECTIONS):
        monkeypatch.delitem(SECTIONS, name)

    def replace(**functions):
        for name, function in functions.items():
            section = types.SimpleNamespace(TITLE="A section", ABOUT="Shows something.", cases=function)
            monkeypatch.setitem(SECTIONS, name, section)

    return replace


def good(context):
    yield Case(case="zero", status="passed", operator="logp", dtype="fp32", value=0, tolerance=0)


def interrupted(context):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda part: part | {"cases": []}, "holds no case"),
        (lambda part: part | {"cases": None}, "is not the part of a report"),
        (lambda part: [part], "is not the part of a report"),
        (lambda part: part | {"cases": [["x"]]}, "a case has 1 fields"),
        (lambda part: part | {"cases": [3]}, "int"),
        (lambda part: part | {"cases": [Case(section="next", status="passed").row()]}, "of section 'next'"),
        (lambda part: part | {"cases": [Case(section="kept", status="skipped").row()]}, "without a reason"),
    ],
    ids=["no case", "no list", "no object", "a short case", "no case at all", "another's", "no reason"],
)
def test_a_kept_part_that_says_nothing_is_not_taken(tmp_path, sections, capsys, change, words):
    sections(kept=good, next=interrupted)
    assert main(["--out", str(tmp_path)]) == 130
    part = tmp_path / files.PARTS / "kept.json"
    part.write_text(json.dumps(change(json.loads(part.read_text()))))
    sections(next=good)
    assert main(["--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"samebits.report: {part}: ") and words in said
    assert said.endswith("; remove it to measure the section again")
    part.unlink()
    assert main(["--out", str(tmp_path)]) == 0


def test_a_section_without_a_case_is_failed(tmp_path, sections, capsys):
    sections(kept=good, empty=lambda context: ())
    assert main(["--out", str(tmp_path)]) == 1
    assert "failed: empty: the section itself : it gave no case" in capsys.readouterr().out
    assert [case.section for case in from_csv((tmp_path / files.CASES).read_text())] == ["kept", "empty"]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_can_be_drawn(monkeypatch, value):
    for name in FIGURES.keys() - {"errors"}:
        monkeypatch.delitem(FIGURES, name)
    case = Case("errors", "worst", "logp", "fp32", "reverse", 1, "cpu", "failed", value, 1e-8, value)
    passed = case._replace(order=2, status="passed", value=1e-9, share=0.1)
    drawn = draw_all([case, passed])
    assert drawn["errors.svg"] != draw_all([passed])["errors.svg"]
