"""5,000 comparisons of raw bits between paths and batch layouts, first and second order."""

import random

import torch
from torch.func import grad, jvp, vjp, vmap

import samebits as sb
from support import DTYPES, VOCABS, assert_same_bits, random_logits, random_targets

CASES = 715  # of 7 comparisons each


def scalar(logits, targets, options):
    """A sum over all outputs whose upstreams differ from row to row."""
    values = sb.logp(logits, targets, return_lse=True, return_entropy=True, **options)
    weights = torch.where(targets % 3 == 0, 2.0, -0.75)
    lse = torch.where(values.lse.isfinite(), values.lse, 0.0)
    return ((values.logp - 0.5 * values.entropy + lse) * weights).sum()


def reverse(logits, targets, options, direction):
    """Hessian times direction, reverse over reverse."""
    return vjp(lambda x: grad(scalar)(x, targets, options), logits)[1](direction)[0]


def forward(logits, targets, options, direction):
    """Hessian times direction, forward over reverse."""
    return jvp(lambda x: grad(scalar)(x, targets, options), (logits,), (direction,))[1]


def test_paths_and_splits_agree_bit_for_bit():
    comparisons = 0
    for seed in range(CASES):
        draw = random.Random(seed)
        rows, vocab, dtype = draw.randint(1, 6), draw.choice(VOCABS[:-1]), draw.choice(DTYPES)
        logits, targets = random_logits(rows, vocab, dtype, seed), random_targets(rows, vocab, seed)
        direction = random_logits(rows, vocab, dtype, seed + 1).nan_to_num(neginf=0.0)
        options = {"temperature": draw.choice([None, 0.6, 1.7])}
        leaf = logits.clone().requires_grad_()
        (fused,) = torch.autograd.grad(scalar(leaf, targets, options), leaf)
        (graph,) = torch.autograd.grad(scalar(leaf, targets, options), leaf, create_graph=True)
        (eager,) = torch.autograd.grad(graph, leaf, direction)
        product = reverse(logits, targets, options, direction)
        cut = draw.randint(0, rows)
        parts = [
            forward(logits[s], targets[s], options, direction[s]) for s in (slice(0, cut), slice(cut, rows))
        ]
        order = torch.randperm(rows)
        shuffled = reverse(logits[order], targets[order], options, direction[order])
        mapped = vmap(lambda x, t, v, o=options: reverse(x, t, o, v))(logits, targets, direction)
        singles = vmap(lambda x, t, o=options: grad(scalar)(x, t, o))(logits, targets)
        torch.set_num_threads(draw.choice([1, 2, 3]))
        for actual, expected, what in (
            (graph, fused, "first order in a kept graph"),
            (grad(scalar)(logits, targets, options), fused, "first order under a transform"),
            (singles, fused, "first order, vmap over rows"),
            (eager, product, "second order, eager and reverse over reverse"),
            (torch.cat(parts), product, "second order, split and forward over reverse"),
            (shuffled, product[order], "second order, shuffled"),
            (mapped, product, "second order, vmap over rows"),
        ):
            assert_same_bits(actual, expected, f"seed {seed}, {what}")
            comparisons += 1
    assert comparisons >= 5000
