"""Comparison of raw bits, and inputs shared by the tests."""

import torch

_BITS = {
    torch.float64: torch.int64,
    torch.float32: torch.int32,
    torch.bfloat16: torch.int16,
    torch.float16: torch.int16,
}
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
# Vocabulary sizes around the block of 128 columns and its lanes.
VOCABS = (1, 2, 31, 33, 127, 128, 129, 300, 1000)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The raw bits of a floating tensor, as integers."""
    return tensor.detach().contiguous().view(_BITS[tensor.dtype])


def ordered(pattern: int, width: int) -> int:
    """Integers in the order of the floats they stand for, so that a difference counts ulps."""
    return pattern if pattern >= 0 else -(pattern + (1 << (width - 1)))


def assert_same_bits(actual: torch.Tensor, expected: torch.Tensor, what: str = "") -> None:
    """Equal dtype, shape and raw bits; else the first difference, in hex floats and ulps."""
    assert actual.dtype == expected.dtype, f"{what}: {actual.dtype} and {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: {list(actual.shape)} and {list(expected.shape)}"
    left, right = bits(actual).flatten(), bits(expected).flatten()
    differing = (left != right).nonzero().flatten()
    if differing.numel():
        at = int(differing[0])
        width = left.element_size() * 8
        x, y = float(actual.flatten()[at]), float(expected.flatten()[at])
        ulps = abs(ordered(int(left[at]), width) - ordered(int(right[at]), width))
        raise AssertionError(
            f"{what}: {differing.numel()} of {left.numel()} differ, first at flat index {at}: "
            f"{x.hex()} and {y.hex()}, {ulps} ulp apart"
        )


def random_logits(rows: int, vocab: int, dtype: torch.dtype, seed: int, scale: float = 4.0) -> torch.Tensor:
    """Reproducible logits; some rows carry a mask of -inf, a huge value or equal values."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocab, generator=generator, dtype=torch.float64) * scale
    for row in range(rows):
        kind = (seed + row) % 6
        if kind == 1:
            logits[row, torch.rand(vocab, generator=generator) < 0.4] = -torch.inf
        elif kind == 2:
            logits[row, row % vocab] = 60000.0
        elif kind == 3:
            logits[row] = 1.5
    return logits.to(dtype)


def random_targets(rows: int, vocab: int, seed: int) -> torch.Tensor:
    """Ids, about one in eight of them out of range."""
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randint(-1, vocab + 1, (rows,), generator=generator)


def forward_backward(logp_call, logits: torch.Tensor, upstream):
    """(logp, lse, entropy, gradient) of a call that returns the three; `upstream` has one tensor for each."""
    leaf = logits.detach().requires_grad_()
    results = logp_call(leaf)
    (gradient,) = torch.autograd.grad(results, leaf, upstream)
    return (*(r.detach() for r in results), gradient)


def assert_nothing_waits(calls):
    """Runs `calls` behind a second of sleep on the current CUDA stream; fails when they return after it."""
    calls()  # loads the kernels, which may wait
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(2_000_000_000)  # about a second
        asleep = torch.cuda.Event()
        asleep.record()
        calls()
        assert not asleep.query(), "the calls waited for the device"
    finally:
        torch.cuda.set_sync_debug_mode("default")
