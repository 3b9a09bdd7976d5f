"""`python -m samebits.check autodiff`: what it prints, its exit status, and that it notices faults."""

import errno
import importlib
import io
import json
import os
import sys

import pytest
import torch

import samebits
from samebits import _curvature, _row_functions
from samebits.check import autodiff
from samebits.check.cases import FORMS, PRECISIONS
from samebits.check.cli import main
from samebits.check.methods import METHODS
from samebits.check.references import OUTPUTS


def run_json(capsys, *options: str) -> tuple[int, dict]:
    status = main(["autodiff", *options, "--json"])
    printed = capsys.readouterr()
    assert "fp32" in printed.err  # the progress bar goes elsewhere
    return status, json.loads(printed.out)


@pytest.fixture
def few(monkeypatch):
    """One precision and one form, for faults that show anywhere."""
    monkeypatch.setattr(autodiff, "PRECISIONS", PRECISIONS[:1])
    monkeypatch.setattr(autodiff, "FORMS", FORMS[:1])
    monkeypatch.setattr(autodiff.finite, "FORMS", FORMS[:1])


def test_json_has_every_precision_method_and_order_and_all_pass(capsys):
    status, data = run_json(capsys, "--max-order", "3")
    assert status == 0 and data["passed"] is True
    assert data["check"] == "autodiff" and data["max_order"] == 3 and data["device"] == "cpu"
    assert data["samebits"] == samebits.__version__ and data["torch"] == torch.__version__
    found = {(e["precision"], e["method"], e["order"], e["output"], e["form"]) for e in data["entries"]}
    assert found >= {
        (precision.name, method, order, output, form)
        for precision in PRECISIONS for method in METHODS for order in (1, 2, 3)
        for output in OUTPUTS for form in FORMS
    }  # fmt: skip
    assert len(found) == len(data["entries"])
    assert {e["method"] for e in data["entries"]} == {
        *METHODS, "PyTorch", "finite difference", "gradcheck", "gradgradcheck",
    }  # fmt: skip
    for entry in data["entries"]:
        assert entry["passed"] is True
        if "gradcheck" not in entry["method"] and "gradgradcheck" not in entry["method"]:
            assert 0 <= entry["error"] <= entry["tolerance"] and 0 <= entry["share"] <= 1
            assert entry["largest"] > 1e-6
    lines = {(line["precision"], line["method"], line["order"]): line for line in data["summary"]}
    assert len(lines) == len(data["summary"])
    assert sum(line["cases"] for line in data["summary"]) == len(data["entries"])
    # What would be noticed: relative errors of 1e-4 in float32 and 1e-11 in float64.
    assert all(lines["fp32", method, 3]["resolution"] < 1e-4 for method in METHODS)
    assert all(lines["fp64", method, 3]["resolution"] < 1e-11 for method in METHODS)


def test_the_table_shows_errors_beside_tolerances(capsys, few):
    assert main(["autodiff", "--max-order", "2"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Largest error / its tolerance" in printed and "all within their tolerance" in printed
    assert "gradgradcheck, order 2, fp64: passed" in printed


def test_a_statistic_treated_as_a_constant_fails_at_order_2_and_not_before(capsys, monkeypatch, few):
    monkeypatch.setattr(_curvature, "softmax_jacobian", lambda p, direction: p * direction)
    status, data = run_json(capsys, "--max-order", "2")
    assert status == 1 and data["passed"] is False
    failed = {(e["method"], e["order"]) for e in data["entries"] if not e["passed"]}
    assert failed == {*((method, 2) for method in METHODS), ("gradgradcheck", 2)}


def test_a_relative_error_of_a_ten_thousandth_is_noticed_in_float32(capsys, monkeypatch, few):
    exact = _row_functions.softmax_jacobian

    def off(p, direction):
        return exact(p, direction) * (1 + 2.0**-13)

    monkeypatch.setattr(_curvature, "softmax_jacobian", off)
    status, data = run_json(capsys, "--max-order", "3")
    assert status == 1
    failed = {(e["method"], e["order"]) for e in data["entries"] if not e["passed"]}
    assert failed >= {(method, order) for method in METHODS for order in (2, 3)}
    assert not any(order == 1 for _, order in failed)


def test_a_value_that_is_not_finite_fails_and_is_valid_json(capsys, monkeypatch, few):
    monkeypatch.setattr(_curvature, "softmax_jacobian", lambda p, direction: p * direction / 0.0)
    status, data = run_json(capsys, "--max-order", "2")
    assert status == 1
    assert any(entry["error"] is None and entry["share"] is None for entry in data["entries"])


def test_a_failure_is_named_in_the_table(capsys, monkeypatch, few):
    monkeypatch.setattr(_curvature, "softmax_jacobian", lambda p, direction: p * direction)
    assert main(["autodiff", "--max-order", "2"]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "failed fp32, reverse, logp, dense, order 2" in printed


@pytest.mark.parametrize("order", ["0", "13"])
def test_an_order_out_of_range_is_refused_in_one_line(capsys, order):
    assert main(["autodiff", "--max-order", order]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said == f"samebits.check: --max-order {order}: may be 1 to 12"


def test_a_device_that_cannot_compute_is_refused_in_one_line(capsys):
    for device in ("meta2", "cuda:99"):
        assert main(["autodiff", "--device", device]) == 2
        said = capsys.readouterr().err.strip()
        assert said.startswith(f"samebits.check: --device {device}: ") and "\n" not in said


def test_help_has_an_example_and_names_the_exit_status(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["autodiff", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "example: python -m samebits.check autodiff --max-order 8 --json" in printed
    assert "0 passed, 1 failed, 2 could not run" in printed


def test_a_check_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["no-such"])
    assert "autodiff" in capsys.readouterr().err


def test_a_missing_package_is_named_with_the_pip_command(capsys, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "rich"]:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [name for name in sys.modules if name.startswith("samebits.check")]:
        monkeypatch.delitem(sys.modules, name)
    assert importlib.import_module("samebits.check.cli").main(["autodiff"]) == 2
    assert "pip install rich" in capsys.readouterr().err


@pytest.mark.parametrize("seed", ["-1", "99999999999999999999", "one"])
def test_a_seed_out_of_range_is_refused(capsys, seed):
    with pytest.raises(SystemExit) as stop:
        main(["autodiff", "--seed", seed])
    assert stop.value.code == 2
    assert "--seed" in capsys.readouterr().err


def test_a_device_without_values_is_refused_in_one_line(capsys):
    assert main(["autodiff", "--max-order", "1", "--device", "meta"]) == 2
    assert capsys.readouterr().err.startswith("samebits.check: --device meta: ")


class FullDisk(io.StringIO):
    """A stream that takes text and cannot write it out."""

    def flush(self):
        """As /dev/full answers."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_report_that_cannot_be_written_is_not_a_failed_check(capsys, monkeypatch, few):
    monkeypatch.setattr(sys, "stdout", FullDisk())
    assert main(["autodiff", "--max-order", "1", "--json"]) == 2
    assert "the report could not be written: No space left on device" in capsys.readouterr().err
