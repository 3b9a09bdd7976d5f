"""examples/grpo.py: the same bits in every layout; strict mode stops at a log-prob from elsewhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = ("--warm-up", "3", "--prompts", "1", "--iterations", "3", "--inner", "2")


@pytest.fixture
def grpo(monkeypatch):
    """The example as a module."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    torch.set_num_threads(1)
    import grpo

    return grpo


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_layout_has_the_same_bits(grpo, dtype, tmp_path, capsys):
    path = tmp_path / "grpo.json"
    assert grpo.main([*SMALL, "--dtype", dtype, "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["passed"] and len(report["layouts"]) == len(grpo.LAYOUTS)
    assert len(report["steps"]) == 6
    for layout in report["layouts"]:
        assert layout["losses"] == [step["loss"] for step in report["steps"]]
        assert (layout["differing_losses"], layout["differing_weights"]) == (0, 0)
    for step in report["steps"]:
        assert step["train_logp_source"] == "samebits.linear_logp"
        assert step["inner"] > 1 or step["ratios_not_one"] == 0
    assert len({step["loss"] for step in report["steps"]}) == 6
    assert any(step["ratios_not_one"] for step in report["steps"])
    contract = "fma.v1+row.v1" if dtype == "float32" else "tc16.v1+row.v1"
    assert report["provenance"]["contract"] == contract
    assert f"train_logp_source: samebits.linear_logp ({contract}, cross_device" in capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["grpo.json"]


@pytest.mark.parametrize("role", ["old", "reference", "train"])
def test_strict_mode_stops_at_a_planted_log_prob(grpo, role, tmp_path):
    path = tmp_path / "grpo.json"
    assert grpo.main([*SMALL, "--plant", "torch", "--plant-at", role, "--json", str(path)]) == 1
    report = json.loads(path.read_text())
    expected = f"strict: {role}_logp_source: is torch.log_softmax; must be samebits.linear_logp"
    assert (report["passed"], report["reason"]) == (False, expected)
    assert report["layouts"] == []


def test_a_false_label_is_found_by_its_bits(grpo, monkeypatch, capsys):
    honest = grpo.score_by_torch

    def lying(hidden, weight, targets, memory):
        made = grpo.score(hidden, weight, targets)
        return grpo.LogProbs(honest(hidden, weight, targets).values, made.source, made.provenance)

    monkeypatch.setattr(grpo, "score_by_torch", lying)
    assert grpo.main([*SMALL, "--plant", "torch"]) == 1
    assert "failed: strict: ratio: is not 1 for" in capsys.readouterr().out


def test_without_strict_mode_the_ratios_show_what_was_planted(grpo, tmp_path):
    path = tmp_path / "grpo.json"
    grpo.main([*SMALL, "--plant", "torch", "--no-strict", "--json", str(path)])
    first = json.loads(path.read_text())["steps"][0]
    assert first["train_logp_source"] == "torch.log_softmax"
    assert first["ratios_not_one"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--iterations", "0"], "--iterations: is 0; must be at least 1"),
        (["--device", "nowhere"], "--device nowhere: "),
        (["--text", "/no/such/file"], "--text /no/such/file: "),
        (["--json", "/no/such/folder/x.json"], "--json /no/such/folder/x.json: its folder does not exist"),
        (["--plant", "liger"], "--plant: invalid choice: 'liger'"),
    ],
)
def test_misuse_exits_with_2(grpo, arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        grpo.main(arguments)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_it_runs_as_a_program_and_explains_itself():
    told = subprocess.run([sys.executable, EXAMPLES / "grpo.py", "--help"], capture_output=True, text=True)
    assert told.returncode == 0
    for word in ("--plant", "--json", "Not invariant", "micro-batches"):
        assert word in " ".join(told.stdout.split())
