"""The names of RL-Kernel's operators, as calls of samebits: selected-token log-probs of logits
(``NativeLogpOp``, ``FusedLogpGenericOp``, ``DeterministicLogpCUDAOp``) and of hidden states, and embeddings.

    from samebits.compat.rl_kernel import LogpOp
    logp_op = LogpOp()                      # was: kernel_registry.get_op("logp")
    logp = logp_op(logits, token_ids)

docs/migration-rl-kernel.md lists what differs. Determinism level of every name: cross_device.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

import samebits

from .._logp import LogpLse
from .._logp import logp as _logp
from ..models import _strict
from ..models.nemotron_h import GEOMETRY


def _precision(output: Tensor) -> Literal["fp64"] | None:
    return "fp64" if output.dtype == torch.float64 else None


class LogpOp:
    """Selected-token log-probs under RL-Kernel's names; needs no instance, and one costs nothing.

    The calls that the names stand for:

    - ``op(...)``, ``apply``, ``apply_fp32``, ``forward``, ``forward_fp32``, ``online_fp32``:
      ``logp(logits, token_ids)``
    - ``out``, ``online_out``: ``logp(logits, token_ids, out=output)``
    - ``indexed_fp32``, ``online_indexed_fp32``: ``logp(logits, token_ids, rows=row_indices)``
    - ``indexed_out``, ``online_indexed_out``: ``logp(..., rows=row_indices, out=output)``
    - ``apply_fp64``, ``online_fp64``, ``indexed_fp64``, ``online_indexed_fp64``: the same with
      ``precision="fp64"``
    - ``apply_with_lse``, ``online_with_lse``, ``indexed_with_lse``, ``online_indexed_with_lse``: the same
      with ``return_lse=True``

    Their arguments:

    - logits: ``[..., vocab]`` float32, bfloat16, float16 or float64.
    - token_ids: ``[...]`` int32 or int64; an id outside the vocabulary gives 0.0 and no gradient.
    - row_indices: int32 or int64 numbers of the rows (of the flattened leading shape), any shape; duplicates
      and numbers out of range are fine.
    - output: buffer ``[...]``, float32, or float64 for binary64 arithmetic; returned itself.

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


class NemotronHLMHeadLogprobSM90Op:
    """Log-probs under the LM head of Nemotron-3-Nano-30B-A3B: ``op(hidden, lm_head_weight, target_ids)``.

    The gates are those of ``samebits.models.nemotron_h.LMHeadLogprob``, which new code should use: the weight
    is ``[131072, 2688]`` bfloat16, contract ``tc16.v1+row.v1``, on a GPU that has proven it.

    Args:
        device_contract: ``"proven"``, or ``"twin"`` for a CPU, as in ``LMHeadLogprob``.

    Raises:
        ValueError: another ``device_contract``.
    """

    op_class = "logprob"
    is_batch_invariant = True
    geometry = GEOMETRY

    def __init__(self, *, device_contract: Literal["proven", "twin"] = "proven"):
        """See the class."""
        self.device_contract = _strict.check_device_contract(device_contract)

    def __call__(
        self,
        hidden: Tensor,
        lm_head_weight: Tensor,
        target_ids: Tensor,
        bias: None = None,
        *,
        tp_group: None = None,
        vocab_start_index: int = 0,
        global_vocab_size: int | None = None,
    ) -> Tensor:
        """Log-probs ``[...]`` float32, differentiable in ``hidden`` and ``lm_head_weight``.

        Args:
            hidden: ``[..., 2688]`` bfloat16.
            lm_head_weight: ``[131072, 2688]`` bfloat16.
            target_ids: ``[...]`` int32 or int64; an id outside the vocabulary gives 0.0 and no gradient.
            bias: None; the model has none.
            tp_group, vocab_start_index, global_vocab_size: None, 0 and None or 131072; one device has it all.

        Raises:
            RuntimeError: the device cannot run the contract; the message has the reason.
            ValueError, TypeError: another geometry, or an argument that is not allowed.
        """
        self.geometry.check(lm_head_weight)
        if bias is not None:
            raise ValueError("bias: is given; must be None, for the model has none")
        vocab = self.geometry.vocab
        if tp_group is not None:
            raise ValueError("tp_group: is given; must be None, for one device has the whole vocabulary")
        if vocab_start_index != 0:
            raise ValueError(f"vocab_start_index: is {vocab_start_index!r}; must be 0, the whole vocabulary")
        if global_vocab_size not in (None, vocab):
            raise ValueError(f"global_vocab_size: is {global_vocab_size!r}; must be None or {vocab}")
        _strict.require_device(lm_head_weight.device, self.device_contract)
        return samebits.linear_logp(hidden, lm_head_weight, target_ids, contract="tc16")

    apply = forward = __call__


class SM90EmbeddingOp:
    """Embedding rows with a deterministic gradient: ``op(token_ids, weight)``, as ``samebits.embedding``.

    Runs on CPUs too, with the same bits.
    """

    op_class = "elementwise"
    is_batch_invariant = True

    def __call__(self, token_ids: Tensor, weight: Tensor) -> Tensor:
        """Rows of ``weight`` ``[V, H]``, in its dtype: ``[..., H]`` for ids ``[...]`` int32 or int64.

        An id outside ``[0, V)`` gives a row of NaN and no gradient. Raises as ``samebits.embedding``.
        """
        return samebits.embedding(token_ids, weight)

    @staticmethod
    def forward_fp32(token_ids: Tensor, weight: Tensor) -> Tensor:
        """The same rows in float32; an upstream is rounded to the dtype of the weight before it is summed."""
        return samebits.embedding(token_ids, weight).float()

    apply = forward = __call__
