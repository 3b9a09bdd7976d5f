"""The operators that can be checked: what they return, the class of each result, and their exact results."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from samebits.check.op import exact_losses as losses
from samebits.check.op import inputs as make
from samebits.check.op.exact import Parts
from samebits.check.op.exact_logp import Head, Row
from samebits.check.op.exact_lookup import of_weight, rows_of
from samebits.check.op.exact_products import Products, transposed
from samebits.check.op.inputs import Inputs, Maker, Shape
from samebits.models.nemotron_h import Embedding, LMHeadLogprob

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
PADDING = {"targets": -100, "ids": -1, "mask": False, "values": torch.nan}  # what takes no part
LOGPROB = {name: ("logprob", name) for name in ("logp", "lse", "entropy")}
# Results in binary64 by name: outputs, then gradients of the first output.
Exact = tuple[dict[str, Callable[[], Parts]], dict[str, Callable[[], Parts]]]


@dataclass(frozen=True)
class Operator:
    """One line of the table."""

    name: str
    """As on the command line."""
    call: str
    """How a candidate is called."""
    outputs: dict[str, tuple[str, str]]
    """Class and cell of each result, the one with a gradient first."""
    gradients: dict[str, tuple[str, str]]
    """The same of the gradient of each operand."""
    by_row: tuple[str, ...]
    """Operands that have a row for each token."""
    make: Maker
    """Its inputs."""
    exact: Callable[[Inputs], Exact]
    """Its results in binary64."""
    dtypes: tuple[str, ...] = tuple(DTYPES)
    """Names of the dtypes it takes."""
    rowwise: bool = True
    """Whether outputs have a row for each token; else they are sums over all of them, in any order."""
    model: type | None = None
    """Class of a strict operator, which fixes the sizes."""

    @property
    def padded(self) -> bool:
        """Whether rows may take no part."""
        return any(name in PADDING for name in self.by_row)

    def shape(self, shape: Shape) -> Shape:
        """The sizes that it runs with."""
        if self.model is None:
            return shape
        return shape._replace(vocab=self.model.geometry.vocab, hidden=self.model.geometry.hidden)


def _logp(inputs: Inputs) -> Exact:
    row = Row(inputs.operands["logits"].double(), inputs.operands["targets"])
    outputs = row.outputs(None, 0)
    return {n: lambda n=n: outputs[n] for n in outputs}, {"logits": lambda: row.of_logits(inputs.upstream)}


def _head(inputs: Inputs) -> Exact:
    head = Head(*inputs.operands.values(), inputs.upstream)
    outputs = head.outputs()
    gradients = {"hidden": head.of_hidden, "weight": head.of_weight}
    return {n: lambda n=n: outputs[n] for n in outputs}, gradients


def _matmul(inputs: Inputs) -> Exact:
    a, b = inputs.operands.values()
    exact = Products(a, b.t(), None, inputs.upstream)
    return {"product": exact.product}, {"a": exact.of_x, "b": lambda: transposed(exact.of_weight())}


def _linear(inputs: Inputs) -> Exact:
    exact = Products(*inputs.operands.values(), inputs.upstream)
    gradients = {"x": exact.of_x, "weight": exact.of_weight, "bias": exact.of_bias}
    return {"product": exact.product}, gradients


def _embedding(inputs: Inputs) -> Exact:
    ids, weight = inputs.operands.values()
    gradients = {"weight": lambda: of_weight(ids, weight, inputs.upstream)}
    return {"rows": lambda: rows_of(ids, weight)}, gradients


def _masked(mean: bool, inputs: Inputs) -> Exact:
    values, mask = inputs.operands.values()
    gradients = {"values": lambda: losses.of_values(mask, inputs.upstream, mean)}
    return {"mean" if mean else "sum": lambda: losses.masked(values, mask, mean)}, gradients


def _ratio(inputs: Inputs) -> Exact:
    exact = losses.Ratio(*inputs.operands.values(), None, inputs.upstream)
    return {"ratio": exact.value}, {"logp": exact.of_logp, "old_logp": lambda: exact.of_logp(-1)}


def _clipped(inputs: Inputs) -> Exact:
    exact = losses.Ratio(*inputs.operands.values(), inputs.upstream)
    slopes = {"logp": exact.of_logp, "old_logp": lambda: exact.of_logp(-1)}
    return {"loss": exact.value}, slopes | {"advantages": exact.of_advantages}


def _divergence(inputs: Inputs) -> Exact:
    exact = losses.Divergence(*inputs.operands.values(), inputs.upstream)
    return {"kl": exact.value}, {"logp": exact.of_logp, "reference_logp": lambda: exact.of_logp(-1)}


_HEAD = {"hidden": ("logprob", "hidden"), "weight": ("logprob", "weight")}
_LINEAR = {"x": ("gemm", "operand"), "weight": ("gemm", "operand"), "bias": ("gemm", "bias")}
_MATMUL = {"a": ("gemm", "operand"), "b": ("gemm", "operand")}
_ROWS, _SUM = {"rows": ("elementwise", "copy")}, {"weight": ("reduction", "sum")}
_EXP, _K3 = ("elementwise", "exp"), ("elementwise", "k3")
_OLD, _MASKED = ("logp", "old_logp"), {"values": ("reduction", "values")}
_WIDE, _BF16 = ("fp64", "fp32"), ("bf16",)
_HEAD_CALL, _LOOKUP_CALL = "f(hidden, weight, targets)", "f(ids, weight)"

OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("logp", "f(logits, targets)", LOGPROB, {"logits": ("logprob", "logits")},
                 ("logits", "targets"), make.logits, _logp),
        Operator("linear_logp", _HEAD_CALL, LOGPROB, _HEAD, ("hidden", "targets"), make.head, _head),
        Operator("matmul", "f(a, b)", {"product": ("gemm", "product")}, _MATMUL, ("a",), make.product,
                 _matmul),
        Operator("linear", "f(x, weight, bias)", {"product": ("gemm", "product")}, _LINEAR, ("x",),
                 make.linear, _linear),
        Operator("embedding", _LOOKUP_CALL, _ROWS, _SUM, ("ids",), make.lookup, _embedding),
        Operator("masked_sum", "f(values, mask)", {"sum": ("reduction", "rounded_sum")}, _MASKED,
                 ("values", "mask"), make.tokens, partial(_masked, False), rowwise=False),
        Operator("masked_mean", "f(values, mask)", {"mean": ("reduction", "rounded_mean")}, _MASKED,
                 ("values", "mask"), make.tokens, partial(_masked, True), rowwise=False),
        Operator("ratio", "f(logp, old_logp)", {"ratio": _EXP}, dict.fromkeys(_OLD, _EXP), _OLD,
                 make.policies(*_OLD), _ratio, _WIDE),
        Operator("clipped_ratio_loss", "f(logp, old_logp, advantages)", {"loss": _EXP},
                 dict.fromkeys((*_OLD, "advantages"), _EXP), (*_OLD, "advantages"),
                 make.policies(*_OLD, "advantages"), _clipped, _WIDE),
        Operator("kl_k3", "f(logp, reference_logp)", {"kl": _K3},
                 dict.fromkeys(("logp", "reference_logp"), _K3), ("logp", "reference_logp"),
                 make.policies("logp", "reference_logp"), _divergence, _WIDE),
        Operator("nemotron_h_lm_head_logprob", _HEAD_CALL, LOGPROB, _HEAD, ("hidden", "targets"), make.head,
                 _head, _BF16, model=LMHeadLogprob),
        Operator("nemotron_h_embedding", _LOOKUP_CALL, _ROWS, _SUM, ("ids",), make.lookup, _embedding,
                 _BF16, model=Embedding),
    )
}  # fmt: skip


def results(operator: Operator, value) -> dict[str, Tensor]:
    """What a candidate returned, by name: a tensor, a tuple, a named tuple or a dict of them.

    Raises:
        TypeError: it is none of these, or has a name the operator does not know.
    """
    names = tuple(operator.outputs)
    if isinstance(value, Tensor):
        found = {names[0]: value}
    elif isinstance(value, dict):
        found = value
    elif isinstance(value, tuple) and value:
        found = dict(zip(getattr(value, "_fields", names), value, strict=False))
    else:
        raise TypeError(f"it returned a {type(value).__name__}; must be a tensor, or a tuple or dict of them")
    for name, tensor in found.items():
        if name not in names or not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise TypeError(f"it returned {name!r}, a {kind}; may be tensors named {', '.join(names)}")
    if names[0] not in found:
        raise TypeError(f"it returned no {names[0]!r}")
    return found
