"""The strict Nemotron embedding, and RL-Kernel's name for an embedding."""

import pytest
import torch

import samebits as sb
from samebits.compat.rl_kernel import SM90EmbeddingOp
from samebits.models import _strict
from samebits.models.nemotron_h import CHECKPOINT, Embedding
from support import assert_same_bits

GENERATOR = torch.Generator().manual_seed(0)
WEIGHT = torch.randn(70, 16, generator=GENERATOR).bfloat16()
IDS = torch.randint(0, 20, (3, 50), generator=GENERATOR)
UPSTREAM = torch.randn(3, 50, 16, generator=GENERATOR).bfloat16()


class SmallEmbedding(Embedding):
    """At sizes that a test can afford."""

    geometry = _strict.Geometry(vocab=70, hidden=16)


def small(device_contract="twin"):
    weight = WEIGHT.clone().requires_grad_()
    return SmallEmbedding(weight, checkpoint=CHECKPOINT, device_contract=device_contract)


def test_the_gates_are_those_of_the_head():
    with pytest.raises(ValueError, match=r"^weight: has shape \[70, 16\]; must be \[131072, 2688\]"):
        Embedding(WEIGHT, checkpoint=CHECKPOINT)
    for call in (small("proven"), small("proven").rollout_lookup):
        with pytest.raises(RuntimeError, match=r"^device_contract: is 'proven', and weight is on cpu"):
            call(IDS)
    with pytest.raises(TypeError, match=r"^ids: is float32; may be int32 or int64"):
        small()(IDS.float())


def test_training_and_rollout_look_up_the_same_rows():
    embedding = small()
    trained = embedding.train_lookup(IDS)
    assert trained.requires_grad
    for rows in (trained, embedding(IDS), embedding.rollout_lookup(IDS.int())):
        assert_same_bits(rows.detach(), WEIGHT[IDS])
    assert not embedding.rollout_lookup(IDS).requires_grad
    outside = torch.tensor([70, -1, 3])
    assert embedding(outside)[:2].isnan().all() and not embedding(outside, on_invalid="zero")[:2].any()


@pytest.mark.parametrize("padding_idx", [None, 3, -67])
def test_gradients_are_those_of_embedding(padding_idx):
    embedding = small()
    (actual,) = torch.autograd.grad(embedding(IDS, padding_idx=padding_idx), embedding.weight, UPSTREAM)
    leaf = WEIGHT.clone().requires_grad_()
    (expected,) = torch.autograd.grad(sb.embedding(IDS, leaf, padding_idx=padding_idx), leaf, UPSTREAM)
    assert_same_bits(actual, expected)
    assert bool(actual[3].any()) == (padding_idx is None)
    main_grad = torch.zeros(70, 16)
    embedding(IDS, padding_idx=padding_idx, grad_accumulator=main_grad).backward(UPSTREAM)
    assert embedding.weight.grad is None
    assert_same_bits(main_grad.bfloat16(), expected)


def test_provenances_are_compared_by_checkpoint_and_options():
    embedding = small()
    recorded = embedding.provenance()
    assert recorded["contract"] == "embedding.v1" and recorded["op"] == "embedding"
    assert recorded["checkpoint"] == CHECKPOINT and recorded["fallback"] is False
    sb.require_same(recorded, {**recorded, "device": "cuda", "backend": "cuda", "kernels": []})
    sb.require_same(embedding.provenance(padding_idx=3), embedding.provenance(padding_idx=-67))
    for options, field in (
        ({"padding_idx": 3}, r"semantics\.padding_idx: None and 3"),
        ({"on_invalid": "zero"}, r"semantics\.on_invalid: 'nan' and 'zero'"),
    ):
        with pytest.raises(ValueError, match=field):
            sb.require_same(recorded, embedding.provenance(**options))
    with pytest.raises(ValueError, match="op: 'embedding' and 'logp'"):
        sb.require_same(sb.plan("embedding", IDS, WEIGHT), sb.plan("logp", WEIGHT))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rl_kernels_embedding_gives_the_bits_of_embedding(dtype):
    weight = WEIGHT.to(dtype).requires_grad_()
    op = SM90EmbeddingOp()
    for call in (op, op.apply, op.forward):
        assert_same_bits(call(IDS, weight).detach(), sb.embedding(IDS, weight).detach())
    wide = op.forward_fp32(IDS, weight)
    assert_same_bits(wide.detach(), weight.detach()[IDS].float())
    upstream = UPSTREAM.to(dtype)
    (actual,) = torch.autograd.grad(wide, weight, upstream.float())
    assert_same_bits(actual, torch.autograd.grad(sb.embedding(IDS, weight), weight, upstream)[0])
