"""`python -m samebits.report`: what it refuses, what it keeps, what it says, and that it can be checked."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import types
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from samebits.report import apart
from samebits.report import folder as files
from samebits.report.case import FIELDS, Case, from_csv, to_csv
from samebits.report.cli import main
from samebits.report.context import judged, plain, skipped
from samebits.report.errors import ReportError
from samebits.report.figures import FIGURES
from samebits.report.sections import SECTIONS


def section(function):
    return types.SimpleNamespace(TITLE="A section", ABOUT="Shows <something>.", cases=function)


def good(context):
    context.commands.append("true")
    with context.stage("steps", 2) as tick:
        tick(note="one")
        yield Case(case="zero", status="passed", operator="logp", dtype="fp32", value=0, tolerance=0)
        yield Case(
            case="near", status="passed", method="reverse", order=2, value=1e-9, tolerance=1e-8, share=0.1
        )


def partial(context):
    yield skipped("needs <b>what</b> is not here", case="gone", operator="logp", dtype="bf16")
    yield judged(True, "", case="here")


def bad(context):
    yield judged(False, "an element is beyond its tolerance", case="far", value=2.0, tolerance=1.0)


@pytest.fixture
def sections():
    """Replace the sections by others, and draw one figure; the true ones come back afterwards."""
    before, drawn = dict(SECTIONS), dict(FIGURES)
    for name in drawn.keys() - {"overview"}:
        del FIGURES[name]

    def replace(**functions):
        SECTIONS.clear()
        SECTIONS.update({name: section(function) for name, function in functions.items()})

    yield replace
    SECTIONS.clear()
    SECTIONS.update(before)
    FIGURES.clear()
    FIGURES.update(drawn)


class Images(HTMLParser):
    """Collects what a browser would show as images; anything that is loaded is an error."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "link", "iframe")
        if tag == "img":
            kind, _, data = dict(attrs)["src"].partition(",")
            assert kind == "data:image/svg+xml"
            self.found.append(unquote(data))


def table(folder):
    return from_csv((folder / files.CASES).read_text())


def contents(folder):
    return {name: (folder / name).read_bytes() for name in [*files.files(folder), files.MANIFEST]}


def test_a_report_is_complete_and_agrees_with_itself(tmp_path, sections, capsys):
    sections(first=good, second=partial)
    out = tmp_path / "report"
    assert main(["--out", str(out)]) == 0
    names = files.files(out)
    assert {"cases.csv", "report.html", "run.json", "figures/overview.png", "figures/overview.svg"} <= set(
        names
    )
    assert not any(name.startswith("parts") or name.endswith(files.UNFINISHED) for name in names)
    rows = list(csv.reader((out / "cases.csv").read_text().splitlines()))
    assert tuple(rows[0]) == FIELDS and len(rows) == 5
    run = json.loads((out / "run.json").read_text())
    assert run["counts"] == {"passed": 3, "failed": 0, "skipped": 1}
    assert run["sections"]["first"]["commands"] == ["true"]
    assert run["commands"] == [f"python -m samebits.report --out {out}"]
    digests = run["identity"]["digests"]
    assert len(digests["package_sha256"]) == 64 and digests["libraries_sha256"]["libsamebits_torch.so"]
    page = (out / "report.html").read_text()
    assert "needs &lt;b&gt;what&lt;/b&gt; is not here" in page and "<b>what" not in page
    images = Images()
    images.feed(page)
    (inside,) = images.found
    assert inside == (out / "figures" / "overview.svg").read_text()
    assert main(["--verify", str(out)]) == 0
    checked = subprocess.run(["sha256sum", "--check", "--quiet", files.MANIFEST], cwd=out)
    assert checked.returncode == 0
    assert "3 passed, 0 failed, 1 skipped" in capsys.readouterr().out


def test_a_skipped_case_is_never_a_passed_one(tmp_path, sections):
    sections(first=partial)
    assert main(["--out", str(tmp_path / "a"), "--quick"]) == 0
    gone, here = table(tmp_path / "a")
    assert (gone.status, gone.value, here.status) == ("skipped", None, "passed")
    assert gone.reason == "needs <b>what</b> is not here"

    sections(first=lambda context: iter([skipped("no device", case="all")]))
    assert main(["--out", str(tmp_path / "b")]) == 2  # nothing was shown

    for wrong in (
        Case(case="x", status="skipped"),
        Case(case="x", status="skipped", reason="why", value=0.0),
        Case(case="x", status="fine"),
        Case(case="x", status="passed", value=2.0, tolerance=1.0),
        Case(case="x", status="passed", share=float("nan")),
    ):
        sections(first=lambda context, wrong=wrong: iter([wrong]))
        assert main(["--out", str(tmp_path / "c")]) == 2
        assert not (tmp_path / "c" / files.CASES).exists()


def test_sections_that_were_not_asked_for_are_skipped(tmp_path, sections):
    sections(first=good, second=bad)
    assert main(["--out", str(tmp_path / "a"), "--only", "first"]) == 0
    assert [(case.section, case.status) for case in table(tmp_path / "a")][-1] == ("second", "skipped")


def test_failures_are_said_and_an_exception_is_one(tmp_path, sections, capsys):
    def broken(context):
        yield judged(True, "", case="before")
        raise OSError("/a/secret/place/file.json: no such file")

    sections(first=bad, second=broken)
    assert main(["--out", str(tmp_path / "a")]) == 1
    printed = capsys.readouterr().out
    assert "failed: first: far" in printed and "beyond its tolerance" in printed
    last = table(tmp_path / "a")[-1]
    assert last.status == "failed" and last.reason == "the section stopped: OSError: file.json: no such file"
    assert main(["--verify", str(tmp_path / "a")]) == 0  # it says what it is


def test_an_older_report_is_never_altered(tmp_path, sections, capsys):
    sections(first=good)
    out = tmp_path / "a"
    assert main(["--out", str(out)]) == 0
    before = contents(out)
    for arguments in (["--out", str(out)], ["--out", str(out), "--quick"], ["--finish", str(out)]):
        assert main(arguments) == 2
        assert "never altered" in capsys.readouterr().err
        assert contents(out) == before
    (tmp_path / "c").mkdir()
    for run in ("[1]", '{"identity": [1]}', "{}"):
        (tmp_path / "c" / files.RUN).write_text(run)
        assert main(["--out", str(tmp_path / "c")]) == 2
        assert "is not that of a report" in capsys.readouterr().err
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "thesis.txt").write_text("mine")
    assert main(["--out", str(tmp_path / "b")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(["--out", str(tmp_path / "b" / "thesis.txt")]) == 2
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["thesis.txt"]


SCRIPT = """
import os, signal, sys, types
from pathlib import Path
from samebits.report.case import Case
from samebits.report.sections import SECTIONS
from samebits.report.cli import main

log, fatal = Path(sys.argv[1]), sys.argv[2]

def section(name):
    def cases(context):
        with open(log, "a") as file:
            file.write(name + " ")
        yield Case(case=name, status="passed", operator="logp", dtype="fp32", value=0, tolerance=0)
        if name == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
    return types.SimpleNamespace(TITLE=name, ABOUT=name, cases=cases)

SECTIONS.clear()
SECTIONS.update({name: section(name) for name in ("one", "two", "three")})
sys.exit(main(sys.argv[3:]))
"""


def test_a_killed_report_is_taken_up_where_it_stopped(tmp_path):
    script, log, out = tmp_path / "run.py", tmp_path / "log", tmp_path / "report"
    script.write_text(textwrap.dedent(SCRIPT))

    def run(fatal, *options):
        command = [sys.executable, script, log, fatal, "--out", out, "--measure-only", *options]
        return subprocess.run(command, capture_output=True, text=True)

    assert run("two").returncode == -signal.SIGKILL
    assert sorted(path.name for path in (out / "parts").iterdir()) == ["one.json"]
    refused = run("none", "--quick")  # another report in the same folder
    assert refused.returncode == 2 and "interrupted report with options" in refused.stderr
    done = run("none")
    assert done.returncode == 0 and "one (kept)" in done.stderr
    assert log.read_text().split() == ["one", "two", "two", "three"]
    assert [case.case for case in table(out)] == ["one", "two", "three"]


def test_two_runs_do_not_share_a_folder(tmp_path, sections, capsys):
    def nested(context):
        command = [sys.executable, "-m", "samebits.report", "--out", str(tmp_path / "a")]
        found = subprocess.run(command, capture_output=True, text=True)
        yield judged(found.returncode == 2 and "another run" in found.stderr, found.stderr, case="the other")

    sections(first=nested)
    assert main(["--out", str(tmp_path / "a")]) == 0


def test_sections_in_processes_of_their_own(tmp_path):
    out = tmp_path / "a"
    assert main(["--out", str(out), "--quick", "--only", "training", "--jobs", "2", "--measure-only"]) == 0
    statuses = {(case.section == "training", case.status) for case in table(out)}
    assert statuses == {(True, "passed"), (True, "skipped"), (False, "skipped")}
    run = json.loads((out / files.RUN).read_text())
    assert run["sections"]["training"]["seconds"] > 0


def test_a_section_that_takes_its_process_down_is_failed(tmp_path, sections, monkeypatch, capsys):
    def start(folder, name, jobs, logs):
        (logs / name).write_text("Fatal: no luck\n")
        return subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])

    sections(first=good, bench=good)
    monkeypatch.setattr(apart, "start", start)
    assert main(["--out", str(tmp_path / "a"), "--jobs", "2"]) == 1
    first, *rest = table(tmp_path / "a")
    assert first.reason == "its process ended with status -11: Fatal: no luck"
    assert [case.status for case in rest] == ["passed", "passed"]  # the benchmark runs alone


def test_measuring_and_drawing_can_be_apart(tmp_path, sections, capsys):
    sections(first=good)
    out = tmp_path / "a"
    assert main(["--finish", str(out)]) == 2
    assert main(["--out", str(out), "--measure-only"]) == 0
    assert main(["--verify", str(out)]) == 2 and "not a complete report" in capsys.readouterr().err
    assert main(["--finish", str(out)]) == 0
    assert main(["--verify", str(out)]) == 0


@pytest.mark.parametrize("name", ["cases.csv", "run.json", "report.html", "figures/overview.svg", "more.txt"])
def test_a_changed_file_is_found(tmp_path, sections, capsys, name):
    sections(first=good)
    out = tmp_path / "a"
    assert main(["--out", str(out)]) == 0
    with open(out / name, "a") as file:
        file.write(" ")
    assert main(["--verify", str(out)]) == 1
    assert f"wrong: {name}:" in capsys.readouterr().out
    (out / name).unlink()
    assert main(["--verify", str(out)]) == (0 if name == "more.txt" else 1)


def test_cases_that_were_changed_with_their_digest_no_longer_give_the_figures(tmp_path, sections, capsys):
    sections(first=good, second=bad)
    out = tmp_path / "a"
    assert main(["--out", str(out)]) == 1
    changed = [case._replace(status="passed", reason="", value=0.5) for case in table(out)]
    (out / files.CASES).write_text(to_csv(changed))
    (out / files.MANIFEST).write_text(files.manifest(out))
    capsys.readouterr()
    assert main(["--verify", str(out)]) == 1
    printed = capsys.readouterr().out
    assert "counts are" in printed and "report.html: is not what the cases give" in printed


def test_the_table_reads_back_as_it_was():
    cases = [
        Case("s", 'a "quoted", case', "logp", "bf16", "reverse", 3, "cpu", "passed", 0.1, 1e-300, 1 / 3),
        Case("s", "b", status="skipped", reason="two\nlines"),
        Case("s", "c", status="failed", value=float("inf"), tolerance=0.0),
    ]
    assert from_csv(to_csv(cases)) == cases
    with pytest.raises(ReportError, match="begin with"):
        from_csv("a,b\n")
    with pytest.raises(ReportError, match="order: is 'x'"):
        from_csv(to_csv([cases[0]]).replace(",3,", ",x,"))


def test_reasons_name_no_folders():
    assert plain("cannot open /home/me/x/y.so: gone\n at all") == "cannot open y.so: gone at all"
    assert plain("logp/lse a/b, https://host/path") == "logp/lse a/b, https://host/path"


def test_what_cannot_run_is_refused_by_name(tmp_path, capsys):
    for arguments, words in (
        (["--out", str(tmp_path / "a"), "--device", "nowhere"], "--device nowhere"),
        (["--verify", str(tmp_path / "a")], "is no folder"),
        (["--finish", str(tmp_path)], "holds no report"),
    ):
        assert main(arguments) == 2
        assert words in capsys.readouterr().err
    for arguments in (
        [],
        *(["--out", "a", *o] for o in (["--only", "x"], ["--seed", "-1"], ["--jobs", "0"])),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
    assert not (tmp_path / "a").exists() and not os.path.exists("a")
    assert main(["--list"]) == 0 and "golden" in capsys.readouterr().out
