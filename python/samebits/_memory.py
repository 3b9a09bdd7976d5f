"""How many rows of probabilities linear_logp keeps for backward: a budget that cannot change a bit."""

import torch

AUTO_BYTES = 4 << 30
KEEPING = ((9, 0),)  # compute capabilities whose forward kernel can write probabilities
EVERY_ROW = 1 << 62  # a constant, so that a compiled call does not depend on the number of rows
_COLUMNS = 64  # kept rows are padded to a multiple of so many
_TILE_ROWS = 128  # the library keeps all rows, or a multiple of so many


def check(memory) -> None:
    """`memory` is a word linear_logp knows or a number of bytes."""
    choices = "may be 'auto', 'save', 'recompute' or a number of bytes"
    if isinstance(memory, str):
        if memory not in ("auto", "save", "recompute"):
            raise ValueError(f"memory: is {memory!r}; {choices}")
    elif isinstance(memory, bool) or not isinstance(memory, int):
        raise TypeError(f"memory: is a {type(memory).__name__}; {choices}")
    elif memory < 0:
        raise ValueError(f"memory: is {memory} bytes; must be at least 0, and 'recompute' keeps nothing")


def saved_rows(memory, hidden, weight, contract, entropy, vocab_size) -> int:
    """The number of rows a budget allows; 0 where probabilities cannot be kept.

    They can be where they do not depend on the upstream gradient and a kernel writes them on its way:
    bfloat16 under tc16, without an entropy, on a GPU of KEEPING.
    """
    if memory == "recompute" or entropy or contract == "fma" or hidden.dtype != torch.bfloat16:
        return 0
    if hidden.device.type != "cuda" or torch.cuda.get_device_capability(hidden.device) not in KEEPING:
        return 0
    if memory == "save":
        return EVERY_ROW
    budget = AUTO_BYTES if memory == "auto" else memory
    rows = budget // (2 * _padded(weight, vocab_size))
    return min(rows // _TILE_ROWS * _TILE_ROWS, EVERY_ROW)  # others would be held for nothing


def saved_shape(rows_allowed, hidden, weight, targets, rows, vocab_size) -> tuple:
    """The shape of what linear_logp_forward keeps."""
    columns = _padded(weight, vocab_size)
    if hidden.device.type != "cuda":
        return 0, columns
    count = torch.sym_min(rows_allowed, targets.numel())
    return count if rows is None else torch.sym_min(count, rows.numel()), columns


def _padded(weight, vocab_size):
    vocab = weight.shape[0] if vocab_size is None else vocab_size
    return (vocab + _COLUMNS - 1) // _COLUMNS * _COLUMNS
