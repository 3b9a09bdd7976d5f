"""The names of RL-Kernel's selected-token log-prob operators (``NativeLogpOp``, ``FusedLogpGenericOp``,
``DeterministicLogpCUDAOp``), as calls of ``samebits.logp``.

    from samebits.compat.rl_kernel import LogpOp
    logp_op = LogpOp()                      # was: kernel_registry.get_op("logp")
    logp = logp_op(logits, token_ids)

docs/migration-rl-kernel.md lists what differs. Determinism level of every name: cross_device.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from .._logp import LogpLse
from .._logp import logp as _logp


def _precision(output: Tensor) -> Literal["fp64"] | None:
    return "fp64" if output.dtype == torch.float64 else None


class LogpOp:
    """Selected-token log-probs under RL-Kernel's names; needs no instance, and one costs nothing.

    ======================================================  ==================================================
    name here                                               call
    ======================================================  ==================================================
    ``op(...)``, ``apply``, ``apply_fp32``, ``forward``,    ``logp(logits, token_ids)``
    ``forward_fp32``, ``online_fp32``
    ``out``, ``online_out``                                 ``logp(logits, token_ids, out=output)``
    ``indexed_fp32``, ``online_indexed_fp32``               ``logp(logits, token_ids, rows=row_indices)``
    ``indexed_out``, ``online_indexed_out``                 ``logp(..., rows=row_indices, out=output)``
    ``apply_fp64``, ``online_fp64``, ``indexed_fp64``,      the same with ``precision="fp64"``
    ``online_indexed_fp64``
    ``apply_with_lse``, ``online_with_lse``,                the same with ``return_lse=True``
    ``indexed_with_lse``, ``online_indexed_with_lse``
    ======================================================  ==================================================

    Arguments, the same everywhere:
        logits: ``[..., vocab]`` float32, bfloat16, float16 or float64.
        token_ids: ``[...]`` int32 or int64; an id outside the vocabulary gives 0.0 and no gradient.
        row_indices: int32 or int64 numbers of the rows (of the flattened leading shape), any shape;
            duplicates and numbers out of range are fine.
        output: buffer ``[...]``, float32, or float64 for binary64 arithmetic; returned itself.

    Everything is differentiable as ``samebits.logp`` is, ``out`` and ``indexed_out`` included, and raises
    what ``samebits.logp`` raises. The last two families have no counterpart in RL-Kernel's classes (its
    ``*_with_lse`` are extension symbols that return the row maximum and the log of the sum apart).
    """

    op_class = "logprob"
    is_fused_logp = True
    is_batch_invariant = True

    def __call__(self, logits: Tensor, token_ids: Tensor) -> Tensor:
        """Log-probs ``[...]``, float32 (float64 for float64 logits)."""
        return _logp(logits, token_ids)

    @staticmethod
    def apply(logits: Tensor, token_ids: Tensor) -> Tensor:
        """Log-probs ``[...]``, float32 (float64 for float64 logits), never rounded to 16 bits."""
        return _logp(logits, token_ids)

    @staticmethod
    def out(logits: Tensor, token_ids: Tensor, output: Tensor) -> Tensor:
        """Log-probs written into ``output``, which is returned."""
        return _logp(logits, token_ids, out=output, precision=_precision(output))

    @staticmethod
    def indexed_fp32(logits: Tensor, token_ids: Tensor, row_indices: Tensor) -> Tensor:
        """Log-probs of the rows listed, 0.0 elsewhere; float32 (float64 for float64 logits)."""
        return _logp(logits, token_ids, rows=row_indices.reshape(-1))

    @staticmethod
    def indexed_out(logits: Tensor, token_ids: Tensor, row_indices: Tensor, output: Tensor) -> Tensor:
        """Log-probs of the rows listed written into ``output``, whose other rows keep their values."""
        rows = row_indices.reshape(-1)
        return _logp(logits, token_ids, rows=rows, out=output, precision=_precision(output))

    @staticmethod
    def apply_fp64(logits: Tensor, token_ids: Tensor) -> Tensor:
        """Log-probs normalised and returned in float64, for logits of any dtype."""
        return _logp(logits, token_ids, precision="fp64")

    @staticmethod
    def indexed_fp64(logits: Tensor, token_ids: Tensor, row_indices: Tensor) -> Tensor:
        """Log-probs of the rows listed, 0.0 elsewhere, normalised and returned in float64."""
        return _logp(logits, token_ids, rows=row_indices.reshape(-1), precision="fp64")

    @staticmethod
    def apply_with_lse(
        logits: Tensor, token_ids: Tensor, *, precision: Literal["fp64"] | None = None
    ) -> LogpLse:
        """(logp, lse), each ``[...]``."""
        return _logp(logits, token_ids, precision=precision, return_lse=True)

    @staticmethod
    def indexed_with_lse(
        logits: Tensor, token_ids: Tensor, row_indices: Tensor, *, precision: Literal["fp64"] | None = None
    ) -> LogpLse:
        """(logp, lse) of the rows listed; elsewhere logp 0.0 and lse -inf."""
        rows = row_indices.reshape(-1)
        return _logp(logits, token_ids, rows=rows, precision=precision, return_lse=True)

    # One pass or two is no difference that a caller could see: the bits are one.
    forward = forward_fp32 = apply_fp32 = online_fp32 = apply
    online_out = out
    online_indexed_fp32 = indexed_fp32
    online_indexed_out = indexed_out
    online_fp64 = apply_fp64
    online_indexed_fp64 = indexed_fp64
    online_with_lse = apply_with_lse
    online_indexed_with_lse = indexed_with_lse
