"""What would run and why, and the provenance two results must share."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from . import _checks, _memory, _options, _out
from ._backends import Choice, choices, cuda_problem
from ._embedding import check_embedding
from ._errors import raise_clearly
from ._linear import check_matmul
from ._linear_logp import check_linear_logp

# Recorded so that a result can be traced, never compared: they cannot change a bit.
_RECORDED = (
    "samebits", "device", "device_name", "device_contract", "device_probe", "backend", "gemm_backend",
    "engines", "kernels", "memory", "refusals",
)  # fmt: skip
_OPERANDS = {
    "logp": ("logits", "targets"),
    "linear_logp": ("hidden", "weight", "targets"),
    "matmul": ("a", "b"),
    "embedding": ("ids", "weight"),
}
_ROW_OPTIONS = ("temperature", "rows", "out", "precision", "ignore_index", "on_invalid", "vocab_size")
# Options of each operator beside `backend`.
_OPTIONS = {
    "logp": _ROW_OPTIONS,
    "linear_logp": (*_ROW_OPTIONS, "contract", "memory"),
    "matmul": ("contract", "out_dtype"),
    "embedding": ("on_invalid", "padding_idx"),
}
# What the call asks of the shapes of all operands.
_SHAPES = {
    "logp": _checks.logp,
    "linear_logp": check_linear_logp,
    "matmul": check_matmul,
    "embedding": check_embedding,
}
# The operand whose axis is the vocabulary, and the axis.
_VOCABULARY = {"logp": (0, -1), "linear_logp": (1, 0), "embedding": (1, 0)}


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
    backends: tuple[Choice, ...]
    """Every backend of this build, fastest first, and why it is taken or refused."""
    provenance: dict[str, Any]
    """Plain data, JSON-ready, to be stored with a result and compared by :func:`require_same`."""

    @property
    def can_run(self) -> bool:
        """True when nothing stands against it."""
        return not self.refusals


def _cuda_name(device: str | torch.device) -> str:
    """cuda:INDEX; the current device where none is named, without waking CUDA for the question."""
    index = torch.device(device).index
    if index is None:
        index = torch.cuda.current_device() if torch.cuda.is_initialized() else 0
    return f"cuda:{index}"


def plan(
    op: str,
    *tensors: torch.Tensor,
    temperature: float | torch.Tensor | None = None,
    rows: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    precision: str | None = None,
    ignore_index: int | None = None,
    on_invalid: str | None = None,
    vocab_size: int | None = None,
    contract: str = "auto",
    memory: int | str = "auto",
    out_dtype: torch.dtype | None = None,
    padding_idx: int | None = None,
    backend: str | None = None,
    dtype: torch.dtype | None = None,
    device: str | torch.device = "cpu",
) -> Plan:
    """What a call would run and under which contract, or every reason why it cannot. Computes nothing.

    Determinism level of the operators it describes: in the answer.

    Args:
        op: ``"logp"``, ``"linear_logp"``, ``"matmul"`` (that of ``linear`` too) or
            ``"embedding"``.
        tensors: operands in the order of the call (``logits, targets``; ``hidden, weight, targets``; ``a,
            b``; ``ids, weight``). Trailing ones may be left out; with none, ``dtype`` and ``device`` say what
            they would be. Shapes are looked at where all are there; ids and what fits into memory are for the
            call itself.
        temperature, rows, out, precision, ignore_index, on_invalid, vocab_size, contract, backend, memory,
            out_dtype, padding_idx: as in the call; nothing is written to ``out``.
        dtype: of logits, hidden, a or an embedding's weight, when no tensor is given.
        device: where they would live, when no tensor is given.

    Raises:
        TypeError, ValueError: more operands or other options than the operator has, or an option that no call
            takes. What this call or a backend refuses is in ``refusals`` instead, in the words of the call.
    """
    for argument, value in (("op", op), ("contract", contract)):
        if not isinstance(value, str):
            raise TypeError(f"{argument}: is a {type(value).__name__}; must be a name")
    asked = {"temperature": temperature, "rows": rows, "out": out, "precision": precision,
             "ignore_index": ignore_index, "on_invalid": on_invalid, "vocab_size": vocab_size,
             "contract": contract, "memory": memory, "out_dtype": out_dtype,
             "padding_idx": padding_idx}  # fmt: skip
    _check_signature(op, tensors, asked)
    names = _OPERANDS.get(op, ())[: len(tensors)]
    for name, value in zip(names, tensors, strict=False):
        _checks.tensor(name, value)
    if on_invalid is None:
        on_invalid = "nan" if op == "embedding" else "zero"
    _options.check_semantics(ignore_index, on_invalid, vocab_size)
    _memory.check(memory)
    floating = [t for name, t in zip(names, tensors, strict=False) if name not in _checks.IDS]
    device = tensors[0].device if tensors else device
    dtype = floating[0].dtype if floating else dtype or torch.float32
    vocab = _vocabulary(op, tensors)
    check_operands = partial(_checks.operands, names, *tensors)
    binary64 = _options.is_binary64(precision)
    known = op in _OPERANDS
    of_operands = _refusals(check_operands) if known else []
    if known and not of_operands:
        of_operands = _refusals_of_shapes(op, names, tensors, temperature, rows, out, binary64)
    refusals = [
        *of_operands,
        *_refusals(_options.check_out_dtype, out_dtype, dtype),
        *_refusals(_options.padding_row, padding_idx, vocab or None),
    ]
    per_row = isinstance(temperature, torch.Tensor)
    number = 1.0 if per_row else _options.split_temperature(temperature, None)[0]
    kind = torch.device(device).type
    problem = cuda_problem() if kind == "cuda" else ""
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
            op, _checks.name(dtype), place, contract, per_row, rows is not None,
            rows is not None and out is not None, vocab, number, ignore_index, on_invalid, vocab_size,
            binary64, _options.backend_name(backend),
        )  # fmt: skip
    except RuntimeError as error:
        raise_clearly(error, check_operands)
    provenance = json.loads(text)
    if not computes:
        provenance.update(device=kind, backend="", kernels=[])
    refusals = provenance.pop("refusals", []) + refusals
    if op == "linear_logp":
        provenance["memory"] = memory
    elif op == "matmul":
        provenance["semantics"] = {"out_dtype": _checks.name(out_dtype or dtype)}
    elif op == "embedding":
        row = padding_idx if refusals else _options.padding_row(padding_idx, vocab or None)
        provenance["semantics"] = {"on_invalid": on_invalid, "padding_idx": row}
    if refusals:
        provenance["refusals"] = refusals
    return Plan(
        provenance["op"], provenance["contract"], provenance["level"], provenance["backend"],
        tuple(provenance["kernels"]), tuple(refusals),
        choices(place if computes else kind, backend, provenance["backend"], bool(refusals),
                provenance.get("engines", {})),
        provenance,
    )  # fmt: skip


def _check_signature(op: str, tensors, asked: dict[str, Any]) -> None:
    """TypeError where an operator has no such operands or options."""
    if op not in _OPERANDS:
        return  # the answer refuses it
    names, known = _OPERANDS[op], _OPTIONS[op]
    if len(tensors) > len(names):
        raise TypeError(f"tensors: are {len(tensors)}; {op} has at most {len(names)}, {', '.join(names)}")
    for option, value in asked.items():
        default = value is None or (isinstance(value, str) and value == "auto")
        if not default and option not in known:
            raise TypeError(f"{option}: is no option of {op}; may be {', '.join((*known, 'backend'))}")


def _refusals(check, *arguments) -> list[str]:
    """What the call's own check says against it."""
    try:
        check(*arguments)
    except (TypeError, ValueError, RuntimeError) as error:
        return [str(error)]
    return []


def _refusals_of_shapes(op, names, tensors, temperature, rows, out, binary64) -> list[str]:
    """What the call says against its shapes and against tensors that are options, one line for each."""
    whole = len(tensors) == len(_OPERANDS.get(op, ()))
    if whole and tensors and (found := _refusals(_SHAPES[op], *tensors)):
        return found
    if op in ("logp", "linear_logp") and tensors and tensors[0].dim() == 0:
        return [f"{names[0]}: has no axis; must have at least one"]
    if op == "logp" and tensors and tensors[0].shape[-1] == 0:
        return ["logits: has an empty vocabulary axis; must have at least one column"]
    like, like_name = (tensors[0], names[0]) if tensors else (None, "")
    per_row = temperature if isinstance(temperature, torch.Tensor) else None
    found = _refusals(_checks.row_lists, None, rows, like, like_name)
    if per_row is not None:
        # Its own shape always fits: where no operand says which is wanted, all the rest is asked.
        wanted = tensors[-1] if whole and tensors else per_row
        found += _refusals(_options.split_temperature, per_row, wanted) or _refusals(
            _checks.row_lists, per_row, None, like, like_name
        )
    if out is not None and whole and tensors:
        inputs = (*zip(names, tensors, strict=True), ("temperature", per_row), ("rows", rows))
        inputs = [(name, value) for name, value in inputs if isinstance(value, torch.Tensor)]
        dtype = _options.result_dtype(like, binary64)
        found += _refusals(_out.check, out, tensors[-1], dtype, inputs, False)
    elif out is not None:
        found += _refusals(_checks.tensor, "out", out)
    return found


def _vocabulary(op: str, tensors) -> int:
    """The number of columns or rows that ids count; 0 when no operand says."""
    operand, axis = _VOCABULARY.get(op, (0, 0))
    known = op in _VOCABULARY and operand < len(tensors) and tensors[operand].dim()
    return tensors[operand].shape[axis] if known else 0


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

    Contract, level, operator, dtype, semantics and options must agree, and so must whatever else a provenance
    holds, such as a model's checkpoint and ``fallback``. Version, device, device probe, backends, kernels and
    memory are recorded and not compared: the contract says that they cannot change a bit.

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
        if not isinstance(value, dict) or not value.get("contract") or value.get("refusals"):
            refusals = value.get("refusals") if isinstance(value, dict) else None
            why = f" ({'; '.join(refusals)})" if refusals else ""
            raise TypeError(
                f"{argument}: is no provenance of a request that can run{why}; must be a dict with a "
                "contract, as in samebits.plan(...).provenance"
            )
        sides.append(value)
    difference = _first_difference("", *sides)
    if difference:
        raise ValueError(
            f"provenances differ in {difference}; their results are not promised to share their bits"
        )
