"""The bits of a row depend on that row alone, from Python: batch, order, layout, threads, modes, buffers."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import samebits as sb
from support import DTYPES, VOCABS, assert_same_bits, forward_backward, random_logits, random_targets


@st.composite
def cases(draw, max_rows=9):
    """(logits, targets, options, upstream) of one call."""
    rows = draw(st.integers(1, max_rows))
    vocab = draw(st.sampled_from(VOCABS))
    dtype = draw(st.sampled_from(DTYPES))
    seed = draw(st.integers(0, 10_000))
    options = {"on_invalid": draw(st.sampled_from(["zero", "nan"]))}
    if draw(st.booleans()):
        options["ignore_index"] = draw(st.integers(-1, vocab))
    if draw(st.booleans()):
        options["temperature"] = draw(st.sampled_from([0.25, 0.7, 1.0, 1.3]))
    if draw(st.booleans()):
        options["vocab_size"] = draw(st.integers(1, vocab))
    if draw(st.integers(0, 3)) == 0:
        options["precision"] = "fp64"
    wide = dtype == torch.float64 or "precision" in options
    generator = torch.Generator().manual_seed(seed + 2)
    upstream = torch.randn(3, rows, generator=generator, dtype=torch.float64).to(
        torch.float64 if wide else torch.float32
    )
    return random_logits(rows, vocab, dtype, seed), random_targets(rows, vocab, seed), options, upstream


def run(logits, targets, options, upstream):
    """Forward and backward of all three outputs."""

    def call(x):
        return sb.logp(x, targets, return_lse=True, return_entropy=True, **options)

    return forward_backward(call, logits, tuple(upstream))


def check(actual, expected, what):
    for name, a, b in zip(("logp", "lse", "entropy", "gradient"), actual, expected, strict=True):
        assert_same_bits(a, b, f"{what}: {name}")


@given(cases(), st.data())
def test_rows_do_not_see_each_other(case, data):
    logits, targets, options, upstream = case
    whole = run(*case)
    cut = data.draw(st.integers(0, len(targets)))
    parts = [
        run(logits[part], targets[part], options, upstream[:, part])
        for part in (slice(0, cut), slice(cut, len(targets)))
    ]
    check([torch.cat(pair) for pair in zip(*parts, strict=True)], whole, f"cut at {cut}")


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_rows_is_free(case, random):
    logits, targets, options, upstream = case
    order = list(range(len(targets)))
    random.shuffle(order)
    shuffled = run(logits[order], targets[order], options, upstream[:, order])
    check(shuffled, [part[order] for part in run(*case)], "shuffled")


@given(cases(), st.integers(0, 5))
def test_strides_and_id_types_are_free(case, layout):
    logits, targets, options, upstream = case
    rows, vocab = logits.shape
    expected = run(*case)
    if layout == 0:  # padded rows
        wide = torch.full((rows, vocab + 64), torch.nan, dtype=logits.dtype)
        moved = wide[:, :vocab].copy_(logits)
    elif layout == 1:  # every second row of a larger batch, base one element off
        flat = torch.full((2 * rows * vocab + 1,), torch.nan, dtype=logits.dtype)
        moved = flat[1:].view(2 * rows, vocab)[::2].copy_(logits)
    elif layout == 2:  # column-major: copied, same bits
        moved = logits.t().contiguous().t()
    elif layout == 3:  # leading shape of two axes, transposed
        moved = logits.unsqueeze(0).transpose(0, 1)
        targets, upstream = targets.unsqueeze(1), upstream.unsqueeze(-1)
        expected = [part.unsqueeze(1) for part in expected]
    else:
        moved = logits
        targets = targets.int() if layout == 4 else torch.stack([targets, targets + 7], 1)[:, 0]
    check(run(moved, targets, options, upstream), expected, f"layout {layout}")


@given(cases(max_rows=3))
def test_threads_are_free(case):
    results = []
    for threads in (1, 2, 7):
        torch.set_num_threads(threads)
        results.append(run(*case))
    check(results[1], results[0], "2 threads")
    check(results[2], results[0], "7 threads")


@given(cases())
def test_backends_agree(case):
    logits, targets, options, upstream = case
    expected = run(*case)
    for backend in sb.backends():
        if backend.available:
            forced = run(logits, targets, {**options, "backend": backend.name}, upstream)
            check(forced, expected, backend.name)


@given(cases())
def test_gradient_recording_and_options_asked_for_change_nothing(case):
    logits, targets, options, _ = case
    recorded = sb.logp(logits.requires_grad_(), targets, return_lse=True, return_entropy=True, **options)
    logits = logits.detach()
    assert_same_bits(sb.logp(logits, targets, **options), recorded.logp, "logp alone")
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            again = sb.logp(logits, targets, return_lse=True, return_entropy=True, **options)
            for name in ("logp", "lse", "entropy"):
                assert_same_bits(getattr(again, name), getattr(recorded, name), f"{mode.__name__}: {name}")
    out = torch.full_like(recorded.logp, 7.0, requires_grad=False)
    assert sb.logp(logits, targets, out=out, **options) is out
    assert_same_bits(out, recorded.logp, "out")


@given(cases(), st.data())
def test_padding_columns_do_not_count(case, data):
    logits, targets, options, upstream = case
    options.pop("vocab_size", None)
    columns = data.draw(st.integers(1, 200))
    vocab = logits.shape[1]
    filler = data.draw(st.sampled_from([torch.nan, torch.inf, 60000.0]))
    padded = torch.cat([logits, torch.full((len(targets), columns), filler, dtype=logits.dtype)], 1)
    *values, gradient = run(padded, targets, {**options, "vocab_size": vocab}, upstream)
    expected = run(logits, targets, options, upstream)
    check([*values, gradient[:, :vocab].contiguous()], expected, "padded")
    assert_same_bits(gradient[:, vocab:], torch.zeros_like(gradient[:, vocab:]), "padding gradient")


@given(cases(), st.lists(st.integers(-3, 12), max_size=12), st.booleans())
def test_selected_rows_keep_their_bits_and_the_rest_is_padding(case, listed, narrow):
    logits, targets, options, upstream = case
    rows = torch.tensor(listed, dtype=torch.int32 if narrow else torch.int64)
    chosen = torch.zeros(len(targets), dtype=torch.bool)
    chosen[[r for r in listed if 0 <= r < len(targets)]] = True
    expected = run(*case)
    ignored = run(logits, torch.full_like(targets, -1), {**options, "on_invalid": "zero"}, upstream)
    actual = run(logits, targets, {**options, "rows": rows}, upstream)
    merged = [
        torch.where(chosen.view(-1, *[1] * (full.dim() - 1)), full, padding)
        for full, padding in zip(expected, ignored, strict=True)
    ]
    check(actual, merged, "rows")
    out = torch.full_like(actual[0], 7.0)
    sb.logp(logits, targets, rows=rows, out=out, **options)
    assert_same_bits(out, torch.where(chosen, expected[0], torch.full_like(out, 7.0)), "rows with out")


@given(cases())
def test_a_row_temperature_equals_the_scalar(case):
    logits, targets, options, upstream = case
    value = options.setdefault("temperature", 0.7)
    expected = run(*case)
    tensor = torch.full((len(targets),), value, dtype=torch.float64)
    for temperature in (tensor, tensor[0], tensor[:1]):
        check(run(logits, targets, {**options, "temperature": temperature}, upstream), expected, "per row")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_large_row_is_the_same_alone_and_split_over_threads(dtype):
    logits = torch.randn(5, 131072).to(dtype)
    targets = torch.tensor([0, 1, 131071, -1, 77777])
    upstream = torch.ones(3, 5, dtype=torch.float64 if dtype == torch.float64 else torch.float32)
    torch.set_num_threads(1)
    expected = run(logits, targets, {}, upstream)
    for threads in (2, 7):
        torch.set_num_threads(threads)
        check(run(logits, targets, {}, upstream), expected, f"{threads} threads")
        for row in range(5):
            part = slice(row, row + 1)
            alone = run(logits[part], targets[part], {}, upstream[:, part])
            check(alone, [whole[part] for whole in expected], f"row {row} alone on {threads} threads")
