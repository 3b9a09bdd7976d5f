"""The samebits command on heads when something is wrong: one line that names the cause, nothing written."""

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from cli_command import error_of, example, read_record, run
from cli_heads import checkpoint, head, hidden_states


@pytest.fixture
def folder(tmp_path):
    """Hidden states ``h``, a head ``w``, their record ``r``; logits ``l`` and a record of them ``lr``."""
    hidden_states(tmp_path / "h")
    head(tmp_path / "w")
    example(tmp_path / "l")
    run("logp", tmp_path / "h", "--weight", tmp_path / "w", "-o", tmp_path / "r")
    run("logp", tmp_path / "l", "-o", tmp_path / "lr")
    return tmp_path


W = ("--weight", "w")
USAGE = {
    "no file": (("logp", "h", "--weight", "nowhere", "-o", "out"), "'nowhere': cannot be opened"),
    "no such tensor": (
        ("logp", "h", "--weight", "w::x", "-o", "out"),
        "has no tensor 'x' (--weight); it has",
    ),
    "no name": (("logp", "h", "--weight", "w::", "-o", "out"), "--weight: was 'w::'"),
    "empty folder": (("logp", "h", "--weight", "empty", "-o", "out"), "neither model.safetensors.index.json"),
    "weight is a vector": (("logp", "h", "--weight", "w::lm_head.bias", "-o", "out"), "has shape [300]"),
    "bias is a matrix": (("logp", "h", *W, "--bias", "w::lm_head.weight", "-o", "out"), "bias: 'w'"),
    "bias of another length": (("logp", "h", *W, "--bias", "w::model.norm.weight", "-o", "out"), "BF16 [7]"),
    "parts that do not fit": (("logp", "h", *W, "--weight", "wide", "-o", "out"), "share element type"),
    "hidden of another dtype": (("logp", "f", *W, "-o", "out"), "hidden: are F32 [3, 5, 64]"),
    "hidden of another width": (("logp", "h", "--weight", "wide", "-o", "out"), "BF16 [300, 65] takes BF16"),
    "logits for hidden": (("logp", "logits", *W, "-o", "out"), "these look like logits"),
    "ids for hidden": (("logp", "h", *W, "--hidden", "targets", "-o", "out"), "element type I64"),
    "no hidden": (("logp", "l", *W, "-o", "out"), "has no tensor 'hidden' (--hidden)"),
    "contract": (("logp", "h", *W, "--contract", "tc8", "-o", "out"), "'tc8'"),
    "tc16 of fp32": (
        ("logp", "f", "--weight", "wf", "--contract", "tc16", "-o", "out"),
        "tc16 takes bfloat16",
    ),
    "precision": (("logp", "h", *W, "--precision", "fp64", "-o", "out"), "precision: is 'fp64'"),
    "vocabulary": (("logp", "h", *W, "--vocab-size", "301", "-o", "out"), "1 to the rows of the weight, 300"),
    "output is the weight": (("logp", "h", *W, "-o", "w", "--force"), "'w' is an input"),
    "bias alone": (("logp", "h", "--bias", "w", "-o", "out"), "--bias requires --weight"),
    "hidden alone": (("logp", "h", "--hidden", "h", "-o", "out"), "--hidden requires --weight"),
    "logits and weight": (("logp", "h", *W, "--logits", "h", "-o", "out"), "--weight excludes --logits"),
    "audit without weight": (("audit", "h", "r"), "--weight: is missing; 'r' is a record of linear_logp"),
    "audit with weight": (("audit", "l", "lr", *W), "--weight: was given; 'lr' is a record of logp"),
    "audit with bias": (("audit", "h", "r", *W, "--bias", "w"), "the record was made without one"),
    "audit of other weight": (("audit", "h", "r", "--weight", "short"), "1 to the rows of the weight, 299"),
    "audit of longer hidden": (("audit", "h2", "r", *W), "targets: has shape [3, 5]"),
    "audit of fp32": (("audit", "f", "r", "--weight", "wf"), "'tc16' with float32"),
}


@pytest.mark.parametrize("arguments, part", USAGE.values(), ids=USAGE)
def test_usage_errors_are_one_line_that_names_the_cause(folder, arguments, part):
    hidden, targets = hidden_states(folder / "f", torch.float32)
    hidden_states(folder / "h2", shape=(3, 6))
    weight, _ = head(folder / "wf", torch.float32)
    head(folder / "wide", size=65)
    head(folder / "short", vocab=299)
    logits = (hidden @ weight.T).bfloat16()
    save_file({"hidden": logits, "targets": targets}, folder / "logits")
    (folder / "empty").mkdir()
    before = sorted(os.listdir(folder))
    assert part in error_of(*arguments, cwd=folder)
    assert sorted(os.listdir(folder)) == before


def test_a_record_made_with_a_bias_asks_for_it(folder):
    run("logp", "h", *W, "--bias", "w", "-o", "rb", cwd=folder)
    assert "the record was made with one" in error_of("audit", "h", "rb", *W, cwd=folder)
    run("audit", "h", "rb", *W, "--bias", "w", cwd=folder)


NAME = "lm_head.weight"
INDEXES = {
    "empty": (b"", 'no object "weight_map"'),
    "noise": (bytes(range(256)), 'no object "weight_map"'),
    "list": (b"[1]", 'no object "weight_map"'),
    "deep": (b"[" * 1_000_000, 'no object "weight_map"'),
    "no map": (b'{"metadata": {}}', 'no object "weight_map"'),
    "map is a list": (b'{"weight_map": ["lm_head.weight"]}', 'no object "weight_map"'),
    "no head": (
        b'{"weight_map": {"a": "x", "model.embed_tokens.weight": "x"}}',
        "has no tensor 'lm_head.weight' (--weight); it has 2 others, among them 'model.embed_tokens.weight'",
    ),
    "number": (b'{"weight_map": {"lm_head.weight": 7}}', "may be a file beside the index"),
    "other folder": (b'{"weight_map": {"lm_head.weight": "../w"}}', "may be a file beside the index"),
    "parent": (b'{"weight_map": {"lm_head.weight": ".."}}', "may be a file beside the index"),
    "zero byte": (b'{"weight_map": {"lm_head.weight": "w\\u0000"}}', "may be a file beside the index"),
    "missing shard": (b'{"weight_map": {"lm_head.weight": "gone"}}', "cannot be opened"),
    "twice": (
        b'{"weight_map": {"lm_head.weight": "model-00002-of-00002.safetensors", "lm_head.weight": "x"}}',
        "'lm_head.weight' occurs twice",
    ),
    "two maps": (b'{"weight_map": {}, "weight_map": {"lm_head.weight": "x"}}', "'weight_map' occurs twice"),
}


@pytest.mark.parametrize("contents, part", INDEXES.values(), ids=INDEXES)
def test_a_malformed_index_is_refused(folder, contents, part):
    weight, _ = head(folder / "w")
    index = checkpoint(folder / "sharded", weight)
    index.write_bytes(contents)
    assert part in error_of("audit", "h", "r", "--weight", "sharded", cwd=folder)


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_truncated_shard_is_refused(folder, kept):
    weight, _ = head(folder / "w")
    shard = checkpoint(folder / "sharded", weight).parent / "model-00002-of-00002.safetensors"
    shard.write_bytes(shard.read_bytes()[:kept])
    message = error_of("audit", "h", "r", "--weight", "sharded", cwd=folder)
    assert "model-00002-of-00002.safetensors': not a readable safetensors file" in message


@pytest.mark.parametrize(
    "change, part",
    [
        ({"samebits.weight": "not json"}, "samebits.weight: is not a JSON object"),
        ({"samebits.weight": json.dumps({"dtype": "BF16", "shape": [3]})}, "weight: is BF16 [300, 64]"),
        ({"samebits.hidden": json.dumps({"dtype": "F16", "shape": [3]})}, "hidden: is BF16 [3, 5, 64]"),
        ({"samebits.bias": "{}"}, "the record was made with one"),
    ],
)
def test_hostile_metadata_is_refused(folder, change, part):
    tensors, metadata = read_record(folder / "r")
    save_file(tensors, folder / "bad", {**metadata, **change})
    assert part in error_of("audit", "h", "bad", *W, cwd=folder)


def test_deep_nesting_where_nothing_is_read_does_no_harm(folder):
    tensors, metadata = read_record(folder / "r")
    deep = ', "more": ' + "[" * 100_000 + "]" * 100_000 + "}"
    provenance = metadata["samebits.provenance"][:-1] + deep
    save_file(tensors, folder / "deep", {"samebits.provenance": provenance})
    report = json.loads(run("audit", "h", "deep", *W, "--json", cwd=folder).stdout)
    assert report["same"] and report["recorded_provenance"]["op"] == "linear_logp"
    state = '{"format": "samebits.audit.1", "progress": {}, "identity": {"version": 0' + deep + "}"
    (folder / "state").write_text(state)
    message = error_of("audit", "h", "r", *W, "--state", "state", cwd=folder)
    assert "'state': is the state of another audit: 'version' was 0 and is " in message
