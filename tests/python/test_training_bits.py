"""Three steps of SGD through logp: parameters are bit-equal whatever the layout of the same tokens."""

import pytest
import torch

import samebits as sb
from support import assert_same_bits

LENGTHS, HIDDEN, VOCAB, STEPS, PAD = (7, 1, 12, 5), 24, 300, 3, -1
TOKENS = sum(LENGTHS)


def tokens():
    """Hidden states [tokens, hidden] and ids [tokens] of all sequences, one after the other."""
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(TOKENS, HIDDEN, generator=generator)
    return hidden, torch.randint(0, VOCAB, (TOKENS,), generator=generator)


def places():
    """Where each token stands in a padded batch, as flat positions."""
    longest = max(LENGTHS)
    return torch.cat([torch.arange(n) + i * longest for i, n in enumerate(LENGTHS)]), (len(LENGTHS), longest)


def packed(layer):
    hidden, ids = tokens()
    return sb.logp(layer(hidden), ids, temperature=0.9)


def padded(layer):
    hidden, ids = tokens()
    at, shape = places()
    wide = torch.full((shape[0] * shape[1], HIDDEN), 3.0).index_copy(0, at, hidden).view(*shape, HIDDEN)
    padded_ids = torch.full((shape[0] * shape[1],), PAD).index_copy(0, at, ids).view(shape)
    return sb.logp(layer(wide), padded_ids, temperature=0.9)


def selected(layer):
    hidden, ids = tokens()
    at, shape = places()
    wide = torch.full((shape[0] * shape[1], HIDDEN), -2.0).index_copy(0, at, hidden)
    any_ids = torch.full((shape[0] * shape[1],), 17).index_copy(0, at, ids)
    return sb.logp(layer(wide), any_ids, temperature=0.9, rows=at.flip(0).repeat(2))


def chunked(layer):
    hidden, ids = tokens()
    logits = layer(hidden)
    parts = [sb.logp(logits[a : a + 4], ids[a : a + 4], temperature=0.9) for a in range(0, TOKENS, 4)]
    return torch.cat(parts)


def mapped(layer):
    hidden, ids = tokens()
    return torch.func.vmap(lambda x, t: sb.logp(x, t, temperature=0.9))(layer(hidden), ids)


def threaded(layer):
    torch.set_num_threads(3)
    return packed(layer)


def trained(layout):
    """Weight and bias after three steps with momentum."""
    torch.manual_seed(0)
    weight = (torch.randn(VOCAB, HIDDEN) / 5).requires_grad_()
    bias = torch.zeros(VOCAB, requires_grad=True)
    optimizer = torch.optim.SGD([weight, bias], lr=0.5, momentum=0.9)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = -layout(lambda x: sb.linear(x, weight, bias)).sum() / TOKENS
        loss.backward()
        optimizer.step()
    return weight.detach(), bias.detach()


@pytest.mark.parametrize("layout", [padded, selected, chunked, mapped, threaded])
def test_a_linear_layer_trained_through_logp_does_not_see_the_layout(layout):
    expected = trained(packed)
    for actual, other, name in zip(trained(layout), expected, ("weight", "bias"), strict=True):
        assert_same_bits(actual, other, name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_logits_trained_directly_do_not_see_the_layout(dtype):
    start, ids = torch.randn(TOKENS, VOCAB).to(dtype), tokens()[1]

    def steps(logp):
        leaf = start.clone().requires_grad_()
        optimizer = torch.optim.SGD([leaf], lr=0.5)
        for _ in range(STEPS):
            optimizer.zero_grad()
            (-logp(leaf).sum() / TOKENS).backward()
            optimizer.step()
        return leaf.detach()

    expected = steps(lambda x: sb.logp(x, ids))
    order = torch.randperm(TOKENS)
    layouts = {
        "shuffled": lambda x: sb.logp(x[order], ids[order]),
        "selected": lambda x: sb.logp(x, ids, rows=order),
        "chunked": lambda x: torch.cat(
            [sb.logp(a, b) for a, b in zip(x.split(3), ids.split(3), strict=True)]
        ),
        "mapped": lambda x: torch.func.vmap(sb.logp)(x, ids),
        "into a buffer": lambda x: sb.logp(x, ids, out=torch.empty(TOKENS, dtype=sb.logp(x, ids).dtype)),
    }
    for name, layout in layouts.items():
        assert_same_bits(steps(layout), expected, name)


def test_three_steps_reduce_the_loss():
    weight, bias = trained(packed)
    hidden, ids = tokens()
    torch.manual_seed(0)
    before = sb.logp(sb.linear(hidden, torch.randn(VOCAB, HIDDEN) / 5), ids, temperature=0.9).sum()
    assert sb.logp(sb.linear(hidden, weight, bias), ids, temperature=0.9).sum() > before
