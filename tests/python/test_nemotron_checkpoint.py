"""Reading one matrix of a published checkpoint: shards, single files, and what is refused."""

import json

import pytest
import torch
from safetensors.torch import save_file

import samebits as sb
from cli_command import flip_bit, run
from samebits.models import _strict
from samebits.models.nemotron_h import CHECKPOINT, Embedding, LMHeadLogprob
from support import assert_same_bits

GENERATOR = torch.Generator().manual_seed(0)
HEAD, ROWS = (torch.randn(70, 16, generator=GENERATOR).bfloat16() for _ in range(2))
OPTIONS = {"checkpoint": CHECKPOINT, "device": "cpu", "device_contract": "twin"}


class SmallHead(LMHeadLogprob):
    """At sizes that a test can afford."""

    geometry = _strict.Geometry(vocab=70, hidden=16)


class SmallEmbedding(Embedding):
    """Likewise."""

    geometry = SmallHead.geometry


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of two shards in the published layout."""
    shards = {
        "model-00001-of-00002.safetensors": {"backbone.embeddings.weight": ROWS},
        "model-00002-of-00002.safetensors": {
            "lm_head.weight": HEAD,
            "backbone.norm_f.weight": torch.ones(16),
        },
    }
    for name, tensors in shards.items():
        save_file(tensors, tmp_path / name)
    weight_map = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (tmp_path / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
    return tmp_path


def test_each_operator_reads_its_own_matrix_of_the_shards(folder):
    assert_same_bits(SmallHead.from_checkpoint(folder, **OPTIONS).weight.detach(), HEAD)
    assert_same_bits(SmallEmbedding.from_checkpoint(str(folder), **OPTIONS).weight.detach(), ROWS)


def test_a_single_file_is_read_by_name_or_by_its_folder(tmp_path):
    save_file({"lm_head.weight": HEAD}, tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        head = SmallHead.from_checkpoint(path, **OPTIONS)
        assert_same_bits(head.weight.detach(), HEAD)
    hidden, targets = torch.randn(3, 16, generator=GENERATOR).bfloat16(), torch.tensor([0, 69, 3])
    assert_same_bits(head.logp(hidden, targets), sb.linear_logp(hidden, HEAD, targets))


def test_what_is_not_there_is_named(folder, tmp_path_factory):
    shard = folder / "model-00001-of-00002.safetensors"
    with pytest.raises(KeyError, match=r"has no tensor 'lm_head.weight'; it has backbone.embeddings.weight"):
        SmallHead.from_checkpoint(shard, **OPTIONS)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"backbone.embeddings.weight": shard.name}}))
    with pytest.raises(KeyError, match=r"index.json: has no tensor 'lm_head.weight'; it has backbone"):
        SmallHead.from_checkpoint(folder, **OPTIONS)
    for nothing in (tmp_path_factory.mktemp("empty"), folder / "absent"):
        with pytest.raises(
            FileNotFoundError, match=r"^path: is '.*'; must be a safetensors file, or a folder"
        ):
            SmallHead.from_checkpoint(nothing, **OPTIONS)


def test_tied_matrices_and_other_models_are_refused(folder):
    with pytest.raises(ValueError, match=r"^weight: has shape \[70, 16\]; must be \[131072, 2688\]"):
        LMHeadLogprob.from_checkpoint(folder, **OPTIONS)
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))
    with pytest.raises(ValueError, match=r"^path: '.*' is of a model that ties its embedding to its head"):
        SmallHead.from_checkpoint(folder, **OPTIONS)


def test_tied_matrices_are_refused_where_a_file_is_named_too(folder):
    (folder / "config.json").write_text(json.dumps({"tie_word_embeddings": True}))
    with pytest.raises(ValueError, match=r"^path: '.*' is of a model that ties its embedding to its head"):
        SmallHead.from_checkpoint(folder / "model-00002-of-00002.safetensors", **OPTIONS)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"{", r"config.json' is no JSON \(Expecting"),
        ("config.json", b"\xff\xfe", r"config.json' is no JSON \("),
        ("config.json", b"[1]", "config.json' holds a list; must be a JSON object"),
        ("model.safetensors.index.json", b"{", "index.json' is no JSON"),
        ("model.safetensors.index.json", b"{}", "index.json' has no weight_map of names to files"),
        (
            "model.safetensors.index.json",
            b'{"weight_map": {"lm_head.weight": 3}}',
            "has no weight_map of names",
        ),
        ("model-00002-of-00002.safetensors", b"not one", r"safetensors' is no safetensors file \("),
    ],
)
def test_a_broken_file_is_named(folder, file, content, message):
    (folder / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"^path: '.*{message}"):
        SmallHead.from_checkpoint(folder, **OPTIONS)


def test_a_shard_that_is_missing_is_named(folder):
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"^path: '.*00002.safetensors', which model.safetensors.index"
    ):
        SmallHead.from_checkpoint(folder, **OPTIONS)


def test_a_record_of_the_strict_head_is_audited_from_the_checkpoint(folder, tmp_path_factory):
    head, place = SmallHead.from_checkpoint(folder, **OPTIONS), tmp_path_factory.mktemp("record")
    hidden = torch.randn(9, 16, generator=GENERATOR).bfloat16()
    targets = torch.tensor([0, 69, 3, -100, 5, 6, 70, 8, 9])
    logp = head.rollout_logp(hidden, targets, temperature=0.7)
    provenance = json.dumps(head.provenance(temperature=0.7))
    save_file({"hidden": hidden}, place / "hidden.safetensors")
    record = place / "logp.safetensors"
    save_file({"logp": logp, "targets": targets}, record, {"samebits.provenance": provenance})
    audit = ("audit", place / "hidden.safetensors", record, "--weight", folder)
    run(*audit)
    flip_bit(record, "logp", 4)
    assert "token" in run(*audit, status=1).stdout


def test_rollout_and_training_of_the_guide_share_their_bits(folder, monkeypatch):
    monkeypatch.setattr(LMHeadLogprob, "geometry", SmallHead.geometry)
    hidden, targets = torch.randn(5, 16, generator=GENERATOR).bfloat16(), torch.tensor([0, 69, 3, -100, 5])
    model = torch.nn.Module()
    model.lm_head = torch.nn.Linear(16, 70, bias=False, dtype=torch.bfloat16)
    model.lm_head.weight.data.copy_(HEAD)
    # --8<-- [start:guide]
    # Rollout: from the published safetensors, reading this one tensor.
    # On a GPU leave out device and device_contract.
    head = LMHeadLogprob.from_checkpoint(folder, checkpoint=CHECKPOINT, device="cpu", device_contract="twin")
    sampled = head.rollout_logp(hidden, targets, temperature=0.7)
    recorded = head.provenance(temperature=0.7)  # plain data: store it with the log-probs

    # Training: on the parameter the model already has.
    head = LMHeadLogprob(model.lm_head.weight, checkpoint=CHECKPOINT, device_contract="twin")
    sb.require_same(recorded, head.provenance(temperature=0.7))
    logp = head.train_logp(hidden, targets, temperature=0.7)  # the same call, with a graph
    # --8<-- [end:guide]
    assert_same_bits(sampled, logp.detach())
    assert logp.requires_grad and not sampled.requires_grad
