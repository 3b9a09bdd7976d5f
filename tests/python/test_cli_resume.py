"""An audit that was stopped goes on where it was, and only on the same inputs."""

import json
import os
import shutil
import signal
import time

import pytest

from cli_command import error_of, example, flip_bit, run, start
from cli_heads import head, hidden_states

ROWS = 2000
AUDIT = ("audit", "h", "r", "--weight", "w")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files whose audit by one thread takes some seconds: a state is kept after one. Two rows differ."""
    folder = tmp_path_factory.mktemp("audit")
    hidden_states(folder / "h", shape=(ROWS,), size=1024, vocab=12000)
    head(folder / "w", size=1024, vocab=12000)
    run("logp", "h", "--weight", "w", "-o", "r", "--lse", cwd=folder)
    flip_bit(folder / "r", "lse", 3)
    flip_bit(folder / "r", "logp", ROWS - 1)
    return folder


@pytest.fixture
def folder(files, tmp_path):
    """Copies of them, with their times."""
    for name in ("h", "w", "r"):
        shutil.copy2(files / name, tmp_path / name)
    return tmp_path


def default_signals():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def next_row(state) -> int:
    return json.loads(state.read_text())["progress"]["next_row"] if state.exists() else 0


def stopped(folder, number, *options, state="r.audit") -> str:
    """Starts an audit, stops it by that signal when its state shows progress; returns its stderr."""
    process = start(*AUDIT, "--threads", 1, *options, cwd=folder, preexec_fn=default_signals)
    while not next_row(folder / state):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number and out == ""
    return err


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_audit_goes_on_and_finds_the_same(folder, number):
    err = stopped(folder, number)
    reached = next_row(folder / "r.audit")
    assert 0 < reached < ROWS
    words = f"samebits: stopped; the same command goes on from row {reached} of {ROWS} (kept in 'r.audit')"
    assert err == ("" if number == signal.SIGKILL else f"\n{words}\n")
    report = json.loads(run(*AUDIT, "--json", cwd=folder, status=1).stdout)
    assert report["first_row_of_this_run"] == reached and report["computed"] == ROWS - reached
    assert report["hidden_as_recorded"] is report["weight_as_recorded"] is True
    for name, row in (("lse", 3), ("logp", ROWS - 1)):
        found = report["tensors"][name]
        assert found["differing_rows"] == 1 and found["first_row"] == row and found["distance"] == "1 ulp"
    assert sorted(os.listdir(folder)) == ["h", "r", "w"]


def test_a_state_belongs_to_its_inputs_and_is_kept_when_refused(folder):
    stopped(folder, signal.SIGKILL, "--state", "kept", state="kept")
    state = (folder / "kept").read_bytes()
    audit = (*AUDIT, "--state", "kept")
    for name in ("h", "w", "r"):
        other = folder / "other"
        shutil.copy2(folder / name, other)  # the same bytes and times under another name
        arguments = ["other" if argument == name else argument for argument in audit]
        key = {"h": "hidden", "w": "weight", "r": "record"}[name]
        message = error_of(*arguments, cwd=folder)
        assert f"'kept': is the state of another audit: '{key}' was " in message and "--state" in message
        os.utime(folder / name)  # the same name and bytes, written again
        assert f"'{key}' was " in error_of(*audit, cwd=folder)
        os.replace(other, folder / name)
    assert "'judge' was " in error_of(*audit, "--twin", cwd=folder)
    assert (folder / "kept").read_bytes() == state
    assert "lse differs in 1 of 2000 rows; first at row 3" in run(*audit, cwd=folder, status=1).stdout


@pytest.mark.parametrize("contents", [b"", b"precious", b"[1]", b'{"format": "samebits.audit.1"}'])
def test_a_file_that_is_no_state_is_kept_and_refused(folder, contents):
    (folder / "r.audit").write_bytes(contents)
    assert "'r.audit': is not the state of an audit" in error_of(*AUDIT, cwd=folder)
    for name in ("h", "w", "r"):
        assert f"'{name}': is not the state" in error_of(*AUDIT, "--state", name, cwd=folder)
    assert (folder / "r.audit").read_bytes() == contents


def test_a_state_that_was_changed_is_refused(folder):
    stopped(folder, signal.SIGKILL)
    whole = json.loads((folder / "r.audit").read_text())
    for change in (
        {"next_row": -1},
        {"next_row": ROWS + 1},
        {"next_row": "5"},
        {"digest": "5"},
        {"digest": None},
        {"logp": None},
        {"lse": {"differing_rows": 2}},
    ):
        changed = {**whole, "progress": {**whole["progress"], **change}}
        (folder / "r.audit").write_text(json.dumps(changed))
        assert "'r.audit': is not a whole state; delete it" in error_of(*AUDIT, cwd=folder), change


def test_a_state_that_cannot_be_kept(folder):
    # Asked for: an error, before anything is computed. Not asked for: a warning, and the audit goes on.
    assert "'no/state': cannot be written: No such" in error_of(*AUDIT, "--state", "no/state", cwd=folder)
    record = "r" * 252
    os.replace(folder / "r", folder / record)
    result = run("audit", "h", record, "--weight", "w", "--threads", 1, cwd=folder, status=1)
    assert result.stderr.count("samebits: warning: ") == result.stderr.count("\n") == 1
    assert "cannot be written: File name too long; this audit cannot be resumed" in result.stderr
    assert "lse differs in 1 of 2000 rows" in result.stdout
    assert sorted(os.listdir(folder)) == ["h", record, "w"]


def test_an_audit_of_logits_resumes_too(tmp_path):
    example(tmp_path / "l", vocab=50)
    run("logp", "l", "-o", "r", cwd=tmp_path)
    text = run("audit", "l", "r", "--state", "kept", cwd=tmp_path).stdout
    assert text.startswith("same bits: logp of 15 rows")
    assert sorted(os.listdir(tmp_path)) == ["l", "r"]
