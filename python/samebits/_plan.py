"""What would run and why, the backends of this build, and the provenance two results must share."""

import json
from dataclasses import dataclass
from typing import Any

import torch

from . import _checks, _native
from ._errors import raise_clearly
from ._logp import check_options, is_binary64, split_temperature

# Recorded so that a result can be traced, never compared: they cannot change a bit.
_RECORDED = ("samebits", "device", "device_name", "backend", "kernels", "refusals")
_OPERANDS = {
    "logp": ("logits", "targets"),
    "linear_logp": ("hidden", "weight", "targets"),
    "matmul": ("a", "b"),
}


@dataclass(frozen=True)
class Backend:
    """A backend of this build."""

    name: str
    """Name to force it by."""
    available: bool
    """Whether it can run on this machine."""
    reason: str
    """Why not, when it cannot."""


@dataclass(frozen=True)
class Plan:
    """The answer of :func:`plan`."""

    op: str
    """Operator, as asked."""
    contract: str
    """Bit contract, for example ``row.v1``; empty when there is none."""
    level: str
    """Determinism level."""
    backend: str
    """Backend that would run; empty when none can."""
    kernels: tuple[str, ...]
    """Kernels that would run."""
    refusals: tuple[str, ...]
    """Every reason why it cannot run; empty when it can."""
    provenance: dict[str, Any]
    """Plain data, JSON-ready, to be stored with a result and compared by :func:`require_same`."""

    @property
    def can_run(self) -> bool:
        """True when nothing stands against it."""
        return not self.refusals


def backends() -> list[Backend]:
    """The backends of this build, fastest first, and why one cannot run here."""
    found = []
    for line in torch.ops.samebits.backends.default().splitlines():
        name, _, reason = line.partition("\t")
        found.append(Backend(name, not reason, reason))
    reason = _cuda_problem()
    found.append(Backend("cuda", not reason, reason))
    return found


def _cuda_problem() -> str:
    """What stands against CUDA here; empty when nothing does."""
    return _native.cuda_problem or ("" if torch.cuda.is_available() else "torch finds no CUDA device")


def _cuda_name(device: str | torch.device) -> str:
    """cuda:INDEX; the current device where none is named, without waking CUDA for the question."""
    index = torch.device(device).index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    return f"cuda:{index}"


def plan(
    op: str,
    *tensors: torch.Tensor,
    temperature=None,
    rows=None,
    out=None,
    precision=None,
    ignore_index: int | None = None,
    on_invalid: str = "zero",
    vocab_size: int | None = None,
    contract: str = "auto",
    backend: str | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Plan:
    """What a call would run and under which contract, or every reason why it cannot. Computes nothing.

    Determinism level of the operators it describes: in the answer.

    Args:
        op: ``"logp"``, ``"linear_logp"`` or ``"matmul"``.
        tensors: operands in the order of the call (``logits, targets``; ``hidden, weight, targets``; ``a,
            b``). Trailing ones may be left out; with none, ``dtype`` and ``device`` say what they would be.
            Of these, dtypes, devices and the vocabulary count; the call itself checks shapes and ids.
        temperature, rows, out, precision, ignore_index, on_invalid, vocab_size, contract, backend: as in the
            call. Of a temperature tensor, ``rows`` and ``out`` only the presence counts.
        dtype: of logits, hidden or a, when no tensor is given.
        device: where they would live, when no tensor is given.

    Raises:
        TypeError, ValueError: an option that no call takes. What a backend refuses is in ``refusals``
            instead.
    """
    for argument, value in (("op", op), ("contract", contract)):
        if not isinstance(value, str):
            raise TypeError(f"{argument}: is a {type(value).__name__}; must be a name")
    names = _OPERANDS.get(op, ())
    for name, value in zip(names, tensors, strict=False):
        _checks.tensor(name, value)
    check_options(ignore_index, on_invalid, vocab_size, backend)
    refusals = []
    vocab = 0
    if tensors:
        dtype, device = tensors[0].dtype, tensors[0].device
        floating = tensors[: 1 if op == "logp" else 2]
        for name, value in zip(names, floating, strict=False):
            if value.dtype != dtype:
                kind = _checks.name(value.dtype)
                refusals.append(f"{name}: is {kind}; operands of one call must share one dtype")
        if op == "logp" and tensors[0].dim():
            vocab = tensors[0].shape[-1]
        elif op == "linear_logp" and len(tensors) > 1:
            vocab = tensors[1].shape[0]
    per_row = isinstance(temperature, torch.Tensor)
    number = 1.0 if per_row else split_temperature(temperature, None)[0]
    kind = torch.device(device).type
    problem = _cuda_problem() if kind == "cuda" else ""
    on_cuda = kind == "cuda" and not problem
    computes = kind == "cpu" or on_cuda
    if problem:
        refusals.append(f"device: is cuda, and {problem}; may be cpu")
    elif not computes:
        refusals.append(f"device: is {kind}; may be cpu or cuda")
    answer = torch.ops.samebits.cuda_plan if on_cuda else torch.ops.samebits.plan
    place = _cuda_name(device) if on_cuda else "cpu"
    try:
        text = answer.default(
            op, _checks.name(dtype or torch.float32), place, contract, per_row,
            rows is not None, rows is not None and out is not None, vocab, number, ignore_index, on_invalid,
            vocab_size, is_binary64(precision), backend or "auto",
        )  # fmt: skip
    except RuntimeError as error:
        raise_clearly(error, lambda: None)
    provenance = json.loads(text)
    if not computes:
        provenance.update(device=kind, backend="", kernels=[])
    refusals = provenance.pop("refusals", []) + refusals
    return Plan(
        provenance["op"], provenance["contract"], provenance["level"], provenance["backend"],
        tuple(provenance["kernels"]), tuple(refusals), provenance,
    )  # fmt: skip


def _first_difference(path: str, left, right) -> str | None:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(k for k in right if k not in left)]:
            if path == "" and key in _RECORDED:
                continue
            if key not in left or key not in right:
                return f"{path}{key}: {left.get(key, 'absent')!r} and {right.get(key, 'absent')!r}"
            found = _first_difference(f"{path}{key}.", left[key], right[key])
            if found:
                return found
        return None
    # bool and int compare equal in Python, and so do 1 and 1.0; the JSON text keeps them apart.
    if json.dumps(left) != json.dumps(right):
        return f"{path[:-1]}: {left!r} and {right!r}"
    return None


def require_same(p: dict[str, Any] | Plan, q: dict[str, Any] | Plan) -> None:
    """Raise unless two provenances promise equal bits for equal inputs.

    Contract, level, operator, dtype, semantics and options must agree. Version, device, backend and kernels
    are recorded and not compared: the contract says that they cannot change a bit.

    Args:
        p: a provenance (``plan.provenance``, or the same read back from JSON), or a plan.
        q: the other one.

    Raises:
        ValueError: names the first field that differs and both values.
        TypeError: an argument that is no provenance.
    """
    sides = []
    for argument, value in (("p", p), ("q", q)):
        value = value.provenance if isinstance(value, Plan) else value
        if not isinstance(value, dict) or not value.get("contract"):
            raise TypeError(
                f"{argument}: is no provenance of a request that can run; must be a dict with a contract, "
                "as in samebits.plan(...).provenance"
            )
        sides.append(value)
    difference = _first_difference("", *sides)
    if difference:
        raise ValueError(
            f"provenances differ in {difference}; their results are not promised to share their bits"
        )
