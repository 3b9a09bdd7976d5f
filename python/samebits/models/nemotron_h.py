"""The LM head and the embedding of Nemotron-3-Nano-30B-A3B, for rollout and training alike.

    head = LMHeadLogprob.from_checkpoint(folder, checkpoint=CHECKPOINT, device="cuda")
    logp = head.logp(hidden, targets, temperature=0.7)

Nothing but the model's own shapes in bfloat16 is taken, nothing but ``tc16.v1`` is computed, and a device has
to prove that it computes it: a call runs so, or raises with the reason. docs/nemotron.md is the guide.
"""

from __future__ import annotations

import abc
import dataclasses
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

import samebits

from .._logp import LogpResult
from .._plan import Plan
from . import _checkpoint, _strict

CHECKPOINT = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16@bf77c31"
"""An id of published weights; a run that trains names its own, such as ``my-run@step-120``."""

GEOMETRY = _strict.Geometry(vocab=131072, hidden=2688)
"""Of both matrices, which are not tied."""


class _Matrix(torch.nn.Module, abc.ABC):
    """A strict operator with one matrix: gates, provenance, and how it is read from a checkpoint."""

    geometry = GEOMETRY
    op = ""  # of samebits.plan
    tensor = ""  # its name in the checkpoint

    def __init__(
        self, weight: Tensor, *, checkpoint: str, device_contract: Literal["proven", "twin"] = "proven"
    ):
        """See the classes."""
        super().__init__()
        self.geometry.check(weight)
        own = isinstance(weight, torch.nn.Parameter)
        self.weight = weight if own else torch.nn.Parameter(weight, requires_grad=weight.requires_grad)
        self.device_contract = device_contract
        self.checkpoint = checkpoint

    @classmethod
    def from_checkpoint(
        cls,
        path: str | Path,
        *,
        checkpoint: str,
        device: str | torch.device = "cuda",
        device_contract: Literal["proven", "twin"] = "proven",
    ):
        """The operator on its tensor of a safetensors checkpoint, frozen until ``requires_grad_()``.

        Args:
            path: a safetensors file, or a folder of the published layout (``config.json``,
                ``model.safetensors.index.json``); no other tensor is read.
            checkpoint: as in the class.
            device: where to put it.
            device_contract: as in the class.

        Raises:
            FileNotFoundError, KeyError, ImportError: nothing to read it from, or with.
            ValueError, TypeError: another geometry, a file that cannot be read, or a ``config.json`` (beside
                the file, where ``path`` is one) of a model with tied matrices.
        """
        if _checkpoint.load_config(path).get("tie_word_embeddings"):
            raise ValueError(
                f"path: {str(path)!r} is of a model that ties its embedding to its head; must be untied"
            )
        weight = _checkpoint.load_tensor(path, cls.tensor, device)
        return cls(weight, checkpoint=checkpoint, device_contract=device_contract)

    @property
    def checkpoint(self) -> str:
        """NAME@REVISION of the weights; set it when they change."""
        return self._checkpoint

    @checkpoint.setter
    def checkpoint(self, name: str) -> None:
        self._checkpoint = _strict.check_checkpoint(name)

    @property
    def device_contract(self) -> Literal["proven", "twin"]:
        """What a device has to be; may be set."""
        return self._device_contract

    @device_contract.setter
    def device_contract(self, value: str) -> None:
        self._device_contract = _strict.check_device_contract(value)

    def plan(self, **options: Any) -> Plan:
        """What a call with these options would run, or every reason why it cannot.

        Args:
            options: those of the call that :func:`samebits.plan` knows.

        Raises:
            TypeError, ValueError: as :func:`samebits.plan`; an option that the operator has fixed.
        """
        self.geometry.check(self.weight)
        fixed = {**self._fixed(), "dtype": self.geometry.dtype, "device": self.weight.device}
        for option in fixed:
            if option in options:
                raise TypeError(f"{option}: is an option; the operator has it fixed to {fixed[option]}")
        found = samebits.plan(self.op, *self._operands(), **self._fixed(), **options)
        problem = _strict.device_problem(self.weight.device, self.device_contract)
        refusals = found.refusals if not problem or problem in found.refusals else (problem, *found.refusals)
        provenance = {
            "model": "nemotron_h",
            "checkpoint": self.checkpoint,
            "fallback": False,
            **found.provenance,
            "device_contract": self.device_contract,
            "device_probe": found.provenance.get("device_probe", "none: not computed by tensor cores"),
            "gemm_backend": found.provenance.get("gemm_backend", found.backend),
        }
        if refusals:
            provenance["refusals"] = list(refusals)
        return dataclasses.replace(found, refusals=refusals, provenance=provenance)

    def provenance(self, **options) -> dict:
        """Plain data to store with a result; compared with ``samebits.require_same``.

        Compared: model, checkpoint, fallback (always False), contract, level, operator, dtype, semantics.
        Recorded only: device, device_contract, device_probe, gemm_backend, backend, kernels, memory.

        Raises:
            RuntimeError: a call with these options cannot run; the message has the reasons.
        """
        found = self.plan(**options)
        if not found.can_run:
            raise RuntimeError("; ".join(found.refusals))
        return found.provenance

    def extra_repr(self) -> str:
        """Geometry, checkpoint and device contract."""
        shape = f"{self.geometry.vocab}, {self.geometry.hidden}"
        return f"{shape}, checkpoint={self.checkpoint!r}, device_contract={self.device_contract!r}"

    @abc.abstractmethod
    def _operands(self) -> tuple[Tensor, ...]:
        """Operands of one row, for a plan."""

    def _fixed(self) -> dict:
        return {}

    def _gate(self) -> None:
        self.geometry.check(self.weight)
        _strict.require_device(self.weight.device, self.device_contract)


class LMHeadLogprob(_Matrix):
    """Log-probabilities of tokens under the model's LM head; the logits are never stored.

    Determinism level: cross_device, contract ``tc16.v1+row.v1`` (docs/contract.md).

    Args:
        weight: ``[131072, 2688]`` bfloat16, ``lm_head.weight``. A Parameter is used as it is, so gradients go
            to the model's own; another tensor shares its memory.
        checkpoint: NAME@REVISION of the weights, for the provenance.
        device_contract: ``"proven"``: a GPU whose tensor cores passed the probe of ``tc16.v1``, anything else
            is refused. ``"twin"``: a CPU, which computes the same bits slowly, for audits.

    Raises:
        ValueError, TypeError: another shape or dtype, or an argument that is not allowed, named.
    """

    op = "linear_logp"
    tensor = "lm_head.weight"

    def logp(
        self,
        hidden: Tensor,
        targets: Tensor,
        *,
        temperature: float | Tensor | None = None,
        rows: Tensor | None = None,
        out: Tensor | None = None,
        return_lse: bool = False,
        return_entropy: bool = False,
        ignore_index: int | None = None,
        on_invalid: Literal["zero", "nan", "raise"] = "zero",
        memory: int | Literal["auto", "save", "recompute"] = "auto",
        grad_weight_accumulator: Tensor | None = None,
    ) -> LogpResult:
        """Log-probabilities of ``targets``.

        Args:
            hidden: ``[..., 2688]`` bfloat16, after the model's last norm, on the device of the weight.
            targets: ``[...]`` int32 or int64.
            temperature, rows, out, return_lse, return_entropy, ignore_index, on_invalid, memory,
                grad_weight_accumulator: as in :func:`samebits.linear_logp`.

        Returns:
            ``[...]`` float32, or a named tuple with lse and entropy; differentiable in ``hidden`` and the
                weight.

        Raises:
            RuntimeError: the device is not one the device contract takes; the message has the reason.
            ValueError, TypeError: as :func:`samebits.linear_logp`.
        """
        self._gate()
        return samebits.linear_logp(
            hidden, self.weight, targets, contract="tc16", temperature=temperature, rows=rows, out=out,
            return_lse=return_lse, return_entropy=return_entropy, ignore_index=ignore_index,
            on_invalid=on_invalid, memory=memory, grad_weight_accumulator=grad_weight_accumulator,
        )  # fmt: skip

    forward = train_logp = logp

    def rollout_logp(self, hidden: Tensor, targets: Tensor, **options) -> LogpResult:
        """:meth:`logp` without a graph: the same call, the same bits."""
        with torch.no_grad():
            return self.logp(hidden, targets, **options)

    def _operands(self):
        return self.weight[:1], self.weight

    def _fixed(self):
        return {"contract": "tc16"}


class Embedding(_Matrix):
    """The model's token embedding, with a gradient summed in a fixed order.

    Determinism level: cross_device (docs/contract.md). A lookup copies rows; the gradient of a row is the sum
    over the positions of its id in their order.

    Args:
        weight: ``[131072, 2688]`` bfloat16, ``backbone.embeddings.weight``; as in :class:`LMHeadLogprob`,
            whose weight is another matrix.
        checkpoint, device_contract: as in :class:`LMHeadLogprob`.

    Raises:
        ValueError, TypeError: as :class:`LMHeadLogprob`.
    """

    op = "embedding"
    tensor = "backbone.embeddings.weight"

    def lookup(
        self,
        ids: Tensor,
        *,
        padding_idx: int | None = None,
        on_invalid: Literal["nan", "zero", "raise"] = "nan",
        grad_accumulator: Tensor | None = None,
    ) -> Tensor:
        """Rows of the weight.

        Args:
            ids: ``[...]`` int32 or int64, on the device of the weight.
            padding_idx, on_invalid, grad_accumulator: as in :func:`samebits.embedding`.

        Returns:
            ``[..., 2688]`` bfloat16, differentiable in the weight.

        Raises:
            RuntimeError: the device is not one the device contract takes; the message has the reason.
            ValueError, TypeError: as :func:`samebits.embedding`.
        """
        self._gate()
        return samebits.embedding(
            ids, self.weight, padding_idx=padding_idx, on_invalid=on_invalid,
            grad_accumulator=grad_accumulator,
        )  # fmt: skip

    forward = train_lookup = lookup

    def rollout_lookup(self, ids: Tensor, **options) -> Tensor:
        """:meth:`lookup` without a graph: the same call, the same bits."""
        with torch.no_grad():
            return self.lookup(ids, **options)

    def _operands(self):
        return self.weight.new_empty(0, dtype=torch.int64), self.weight
