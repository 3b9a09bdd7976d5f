"""Records of a GPU at the size of a model, audited by the samebits command on this CPU."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from cli_command import flip_bit, read_record, run

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from evidence import audit  # noqa: E402

CASES = {case.name: case for case in audit.CASES}
RECORDS = sorted((ROOT / "evidence").glob("*/audit/*.safetensors"))
ROWS = 48  # of each record: a second or two


@pytest.fixture(scope="module")
def weight(tmp_path_factory):
    """The head, 704 MB, made again from integers."""
    path = tmp_path_factory.mktemp("head") / "model.safetensors"
    save_file({"lm_head.weight": audit.weight()}, path)
    yield path
    path.unlink()


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: f"{path.parent.parent.name}-{path.stem}")
def test_the_cpu_gives_the_recorded_bits_of_the_gpu(tmp_path, weight, path):
    case = CASES[path.stem]
    tensors, metadata = read_record(path)
    assert torch.equal(tensors["targets"], audit.targets(case.tokens))
    rows = min(ROWS, case.tokens)
    kept = {name: tensor[-rows:].clone() for name, tensor in tensors.items()}
    save_file(kept, tmp_path / "r", {"samebits.provenance": metadata["samebits.provenance"]})
    save_file({"hidden": audit.hidden_states(case.tokens)[-rows:].clone()}, tmp_path / "h")
    command = ("audit", tmp_path / "h", tmp_path / "r", "--weight", weight.parent)
    report = json.loads(run(*command, "--json").stdout)
    assert report["same"] and list(report["tensors"]) == ["logp", "lse", "entropy"]
    assert report["recorded_provenance"]["device"] == "cuda"
    assert report["computed"] == int((kept["targets"] >= 0).sum()) > 0
    assert tensors["logp"].isfinite().all() and (tensors["logp"] <= 0).all()
    flip_bit(tmp_path / "r", "entropy", rows - 1)
    assert f"entropy differs in 1 of {rows} rows" in run(*command, status=1).stdout
