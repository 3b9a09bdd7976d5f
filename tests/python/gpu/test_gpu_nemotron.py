"""The strict Nemotron operators at their real sizes: gates, batches, memory, and the CPU's verdict."""

import pytest
import torch

import samebits as sb
from samebits.models.nemotron_h import CHECKPOINT, GEOMETRY, Embedding, LMHeadLogprob
from support import assert_same_bits

GPU = "cuda:0"
TOKENS = 320


@pytest.fixture(scope="module")
def weight():
    part = torch.randn(4096, GEOMETRY.hidden, generator=torch.Generator().manual_seed(0)).bfloat16()
    return part.to(GPU).repeat(GEOMETRY.vocab // 4096, 1)


@pytest.fixture(scope="module")
def head(weight):
    return LMHeadLogprob(weight.requires_grad_(), checkpoint=CHECKPOINT)


@pytest.fixture(scope="module")
def tokens():
    """(hidden, targets), some of them padding."""
    generator = torch.Generator().manual_seed(1)
    hidden = (torch.randn(TOKENS, GEOMETRY.hidden, generator=generator) / 20).bfloat16().to(GPU)
    targets = torch.randint(0, GEOMETRY.vocab, (TOKENS,), generator=generator).to(GPU)
    targets[::9] = -100
    return hidden, targets


def test_the_device_has_proven_the_contract(head):
    recorded = head.provenance()
    assert recorded["device_probe"].startswith("passed") and recorded["fallback"] is False
    assert recorded["gemm_backend"] and recorded["kernels"] and recorded["device"] == "cuda"
    with pytest.raises(RuntimeError, match=r"^device_contract: is 'twin', which a cpu computes"):
        LMHeadLogprob(head.weight, checkpoint=CHECKPOINT, device_contract="twin").provenance()


def test_training_and_rollout_share_their_bits_in_every_batch(head, tokens):
    hidden, targets = tokens
    trained = head.train_logp(hidden.view(2, -1, GEOMETRY.hidden), targets.view(2, -1), temperature=0.7)
    assert trained.requires_grad
    trained = trained.detach().flatten()
    for batch in (1, 2, 7, 64, 255, 257):
        count = 3 * batch if batch < 64 else TOKENS
        pieces = zip(hidden[:count].split(batch), targets[:count].split(batch), strict=True)
        rolled = torch.cat([head.rollout_logp(h, t, temperature=0.7) for h, t in pieces])
        assert_same_bits(rolled, trained[:count], f"batches of {batch}")


def test_gradients_do_not_depend_on_memory_or_padding(head, tokens):
    hidden, targets = (t.clone() for t in tokens)
    hidden.requires_grad_()

    def gradients(h, ids, **options):
        return torch.autograd.grad(head.train_logp(h, ids, **options).sum(), (h, head.weight))

    expected = gradients(hidden, targets, memory="recompute")
    for memory in ("auto", "save", TOKENS * GEOMETRY.vocab):
        for actual, wanted in zip(gradients(hidden, targets, memory=memory), expected, strict=True):
            assert_same_bits(actual, wanted, f"memory={memory}, {list(actual.shape)}")
    packed = targets >= 0
    part = hidden.detach()[packed].requires_grad_()
    to_part, to_weight = gradients(part, targets[packed])
    assert_same_bits(to_part, expected[0][packed], "hidden, packed")
    assert_same_bits(to_weight, expected[1], "weight, packed")


def test_a_cpu_confirms_sampled_rows(head, tokens):
    hidden, targets = tokens
    twin = LMHeadLogprob(head.weight.detach().cpu(), checkpoint=CHECKPOINT, device_contract="twin")
    sb.require_same(head.provenance(temperature=0.7), twin.provenance(temperature=0.7))
    values = head.rollout_logp(hidden, targets, temperature=0.7, return_lse=True)
    sample = torch.tensor([1, TOKENS // 3, TOKENS - 3])
    part = hidden.cpu()[sample], targets.cpu()[sample]
    confirmed = twin.rollout_logp(*part, temperature=0.7, return_lse=True)
    for value, expected in zip(values, confirmed, strict=True):
        assert_same_bits(value.cpu()[sample], expected)


def test_the_embedding_looks_up_and_sums_in_a_fixed_order(weight):
    embedding = Embedding(weight.detach().requires_grad_(), checkpoint=CHECKPOINT)
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(0, 50, (3, 1000), generator=generator).to(GPU)
    rows = embedding.train_lookup(ids)
    assert_same_bits(rows.detach(), embedding.weight.detach()[ids])
    assert_same_bits(embedding.rollout_lookup(ids), rows.detach())
    upstream = torch.randn(3, 1000, GEOMETRY.hidden, generator=generator).bfloat16().to(GPU)
    first, again = (torch.autograd.grad(embedding(ids), embedding.weight, upstream)[0] for _ in range(2))
    assert_same_bits(again, first)
    twin = Embedding(
        embedding.weight.detach().cpu().requires_grad_(), checkpoint=CHECKPOINT, device_contract="twin"
    )
    (expected,) = torch.autograd.grad(twin(ids.cpu()), twin.weight, upstream.cpu())
    assert_same_bits(first[:64].cpu(), expected[:64])
    assert not first[64:].any()
