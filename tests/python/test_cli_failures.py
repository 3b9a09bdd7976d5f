"""The samebits command when something is wrong: one line, exit status 2, no crash, no half-written file."""

import json
import os
import pty
import resource
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cli_command import command_path, error_of, example, flip_bit, read_record, run, start


def sparse_example(path, rows=16384, vocab=131072):
    """A safetensors file of `rows` all-zero float32 rows (8 GiB) that takes no space on disk."""
    size = rows * vocab * 4
    header = {
        "targets": {"dtype": "I64", "shape": [rows], "data_offsets": [0, 8 * rows]},
        "logits": {"dtype": "F32", "shape": [rows, vocab], "data_offsets": [8 * rows, 8 * rows + size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + 8 * rows + size)


def default_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def started_on_sparse(folder):
    """A logp run that has begun to write its temporary file."""
    sparse_example(folder / "in")
    # A runner in the background may have SIGINT or SIGHUP ignored, and the command keeps that.
    process = start("logp", folder / "in", "-o", folder / "out", preexec_fn=default_signals)
    while not list(folder.glob(".out.*.tmp")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    assert process.poll() is None
    return process


def test_kill_leaves_no_output_and_the_next_run_works(tmp_path):
    process = started_on_sparse(tmp_path)
    process.kill()
    process.communicate()
    assert not (tmp_path / "out").exists()
    example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    run("audit", tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_removes_the_temporary_file(tmp_path, number):
    process = started_on_sparse(tmp_path)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == -number
    assert os.listdir(tmp_path) == ["in"]


def test_kill_keeps_what_force_would_have_replaced(tmp_path):
    (tmp_path / "out").write_bytes(b"precious")
    sparse_example(tmp_path / "in")
    process = start("logp", tmp_path / "in", "-o", tmp_path / "out", "--force")
    time.sleep(0.5)
    process.kill()
    process.communicate()
    assert (tmp_path / "out").read_bytes() == b"precious"


def test_an_input_that_shrinks_is_an_error(tmp_path):
    process = started_on_sparse(tmp_path)
    os.truncate(tmp_path / "in", 4096)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err == "samebits: error: an input file became shorter or unreadable while it was read\n"
    assert os.listdir(tmp_path) == ["in"]


def test_memory_stays_bounded(tmp_path):
    sparse_example(tmp_path / "in", rows=1024)  # 512 MiB
    process = start("logp", tmp_path / "in", "-o", tmp_path / "out", "--threads", 2)
    peak = 0
    while process.poll() is None:
        # VmHWM, and not what wait4 says: that one includes this process, from before the exec.
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak = max(
            [peak, *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))]
        )
        time.sleep(0.005)
    assert process.communicate()[1] == "" and process.returncode == 0
    assert 32 << 10 < peak < 160 << 10  # KiB: a chunk is 32 MiB
    assert (tmp_path / "out").exists()


def test_a_full_disk_is_an_error(tmp_path):
    example(tmp_path / "in", torch.float32, (1000,), 3)
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))}
    assert "File too large" in error_of("logp", tmp_path / "in", "-o", tmp_path / "out", **limit)
    assert os.listdir(tmp_path) == ["in"]


def test_standard_output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "w") as full:
        result = subprocess.run([command_path(), "info"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and "standard output" in result.stderr


def test_overwriting_needs_force(tmp_path):
    example(tmp_path / "in")
    (tmp_path / "out").write_bytes(b"precious")
    assert "--force" in error_of("logp", tmp_path / "in", "-o", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"precious"
    run("logp", tmp_path / "in", "-o", tmp_path / "out", "--force")
    run("audit", tmp_path / "in", tmp_path / "out")
    before = (tmp_path / "in").read_bytes()
    os.link(tmp_path / "in", tmp_path / "same")
    assert "is an input" in error_of("logp", tmp_path / "in", "-o", tmp_path / "same", "--force")
    assert (tmp_path / "in").read_bytes() == before
    assert "not a regular file" in error_of("logp", tmp_path / "in", "-o", "/dev/null", "--force")
    assert sorted(os.listdir(tmp_path)) == ["in", "out", "same"]


USAGE = {
    "no command": ((), "subcommand is required"),
    "unknown command": (("frobnicate",), "frobnicate"),
    "unknown option": (("info", "--frobnicate"), "--frobnicate"),
    "no output": (("logp", "in"), "--out is required"),
    "no file": (("logp", "nowhere", "-o", "out"), "'nowhere': cannot be opened"),
    "a folder": (("logp", ".", "-o", "out"), "'.': is not a regular file"),
    "output folder missing": (("logp", "in", "-o", "no/out"), "'no/out'"),
    "no such tensor": (("logp", "in", "-o", "out", "--logits", "x"), "has no tensor 'x' (--logits); it has"),
    "logits that are ids": (("logp", "in", "-o", "out", "--logits", "targets"), "element type I64"),
    "ids that are logits": (
        ("logp", "in", "-o", "out", "--targets", "logits"),
        "targets: has shape [3, 5, 1000]",
    ),
    "temperature zero": (("logp", "in", "-o", "out", "--temperature", "0"), "temperature: is 0"),
    "temperature nan": (("logp", "in", "-o", "out", "--temperature", "nan"), "temperature"),
    "temperature text": (("logp", "in", "-o", "out", "--temperature", "hot"), "--temperature"),
    "vocabulary zero": (("logp", "in", "-o", "out", "--vocab-size", "0"), "vocab_size: was 0"),
    "vocabulary too large": (("logp", "in", "-o", "out", "--vocab-size", "1001"), "1 to the last extent"),
    "on invalid": (("logp", "in", "-o", "out", "--on-invalid", "maybe"), "zero, nan or raise"),
    "precision": (("logp", "in", "-o", "out", "--precision", "fp8"), "from_logits or fp64"),
    "backend": (("logp", "in", "-o", "out", "--backend", "abacus"), "'abacus'"),
    "threads": (("logp", "in", "-o", "out", "--threads", "-1"), "--threads"),
    "rows of npy": (("logp", "in", "-o", "out", "--rows", "nowhere.npy"), "nowhere.npy"),
    "audit of no record": (("audit", "in", "in"), "samebits.provenance"),
    "selftest backend": (("selftest", "--backend", "abacus"), "'abacus'"),
    "bench too large": (("bench", "--rows", "99999999"), "too many"),
}


@pytest.mark.parametrize("arguments, part", USAGE.values(), ids=USAGE)
def test_usage_errors_are_one_line_that_names_the_cause(tmp_path, arguments, part):
    example(tmp_path / "in")
    assert part in error_of(*arguments, cwd=tmp_path)
    assert os.listdir(tmp_path) == ["in"]


def malformed_files():
    """Names and contents of files that neither reader may accept."""
    good = json.dumps({"logits": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}).encode()
    whole = len(good).to_bytes(8, "little") + good + bytes(8)

    def with_header(header, data=8):
        return len(header).to_bytes(8, "little") + header + bytes(data)

    def npy(header, data=8):
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(data)

    yield "empty", b""
    yield "truncated length", whole[:7]
    yield "truncated header", whole[:20]
    yield "truncated data", whole[:-1]
    yield "longer data", whole + b"x"
    yield "huge header", (1 << 62).to_bytes(8, "little") + good
    yield "noise", bytes(range(256)) * 16
    yield "deep nesting", with_header(b'{"a":' + b"[" * 1_000_000)
    yield "outside", with_header(good.replace(b"[0, 8]", b"[8, 16]"))
    yield "overflow", with_header(good.replace(b"[1, 2]", b"[4611686018427387904, 4]"))
    yield "wrong dtype", with_header(good.replace(b"F32", b"F31"))
    yield "npy truncated", b"\x93NUMPY\x01"
    yield "npy header", npy(b"{'descr': '<f4'")
    yield "npy object", npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 2), }")
    yield "npy fortran", npy(b"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }")
    yield "npy shape", npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 99999999999), }")


@pytest.mark.parametrize("contents", [pytest.param(c, id=n) for n, c in malformed_files()])
def test_malformed_files_are_refused_by_both_commands(tmp_path, contents):
    (tmp_path / "bad").write_bytes(contents)
    np.save(tmp_path / "targets.npy", np.zeros(1, np.int64))
    assert "bad'" in error_of("logp", "bad", "targets.npy", "-o", "out", cwd=tmp_path)
    assert "bad'" in error_of("audit", "bad", "bad", cwd=tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["bad", "targets.npy"]


@pytest.mark.parametrize(
    "change, part",
    [
        ({"samebits.provenance": "not json"}, "not a JSON object"),
        ({"samebits.provenance": "[" * 100_000}, "not a JSON object"),
        ({"samebits.provenance": json.dumps({"op": "matmul"})}, "matmul"),
        ({"samebits.logits": "[" * 100_000 + "]" * 100_000}, "not a JSON object"),
        ({"samebits.logits": json.dumps({"dtype": "F16", "shape": [3]})}, "the record was made of"),
        ({"samebits.logits": json.dumps({"dtype": "F32", "shape": [[3]]})}, "no extent"),
    ],
)
def test_hostile_metadata_is_refused(tmp_path, change, part):
    example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    tensors, metadata = read_record(tmp_path / "out")
    save_file(tensors, tmp_path / "bad", {**metadata, **change})
    assert part in error_of("audit", tmp_path / "in", tmp_path / "bad")


def test_a_record_of_another_shape_or_contract_is_refused(tmp_path):
    example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    example(tmp_path / "longer", shape=(3, 6))
    assert "targets: has shape [3, 5]" in error_of("audit", tmp_path / "longer", tmp_path / "out")
    example(tmp_path / "wide", torch.float64)
    assert "row.v1" in error_of("audit", tmp_path / "wide", tmp_path / "out")
    flip_bit(tmp_path / "out", "targets", 0)  # not a result, but it decides one
    run("audit", tmp_path / "in", tmp_path / "out", status=1)


def test_progress_goes_to_a_terminal_or_where_it_is_asked_for(tmp_path):
    example(tmp_path / "in")
    arguments = ("logp", tmp_path / "in", "-o", tmp_path / "out", "--force")
    assert run(*arguments).stderr == ""
    assert "15/15 rows" in run(*arguments, "--progress").stderr
    quiet = run(*arguments, "--quiet")
    assert quiet.stderr == "" and quiet.stdout == ""
    terminal, end = pty.openpty()
    assert (
        subprocess.run([command_path(), *map(str, arguments)], stderr=end, stdout=subprocess.PIPE).returncode
        == 0
    )
    os.close(end)
    shown = os.read(terminal, 4096).decode()
    os.close(terminal)
    assert "\r" in shown and "100%" in shown and "\n" not in shown
