"""What can be audited: three kinds of functions of rows, and those that have a name of their own here."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

import samebits as sb
from samebits.check.callables import load
from samebits.check.errors import CheckError

# Operands of each kind in the order of the call; those of _ROWS have a row for each row of the result.
KINDS = {"logp": ("logits", "targets"), "head": ("hidden", "weight", "targets"), "product": ("a", "b")}
_ROWS = ("logits", "hidden", "a", "targets")


def by_row(operand: str) -> bool:
    """True where row i of the operand belongs to row i of the result alone."""
    return operand in _ROWS


@dataclass(frozen=True)
class Target:
    """A function to audit."""

    name: str
    kind: str
    call: Callable[..., Tensor]
    """``[rows]`` or, of a product, ``[rows, columns]``."""
    padding_id: int = 0
    """The id of a row of padding. A negative one says that the function leaves such rows out, so that they
    may not reach the gradient of the weight."""
    others: dict[str, Callable[..., Tensor]] = field(default_factory=dict)
    """Other calls that promise the bits of `call`, by what is different about them."""
    op: str = ""
    """The name by which samebits.plan knows it."""

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands, in the order of the call."""
        return KINDS[self.kind]


def _torch_logp(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.log_softmax(logits.float(), -1).gather(1, targets[:, None])[:, 0]


def _torch_linear_logp(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return _torch_logp(hidden @ weight.t(), targets)


def _losses(name: str, function: str) -> Target:
    """A fused head of another package, which gives losses."""
    loss = load(f"--target {name},", function)

    def call(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        return -loss(hidden, weight, targets, reduction="none")

    return Target(name, "head", call, padding_id=-100)


def _ours(op: str, kind: str, device: str, **options: dict) -> Target:
    call = getattr(sb, op)
    place = "cuda" if device.startswith("cuda") else "cpu"
    names = [b.name for b in sb.backends() if b.available and (b.name == "cuda") == (place == "cuda")]
    names += sb.plan(op, device=device).provenance.get("engines", {}) if op == "matmul" else []
    options |= {f"backend={name}": {"backend": name} for name in names}
    others = {name: partial(call, **keywords) for name, keywords in options.items()}
    return Target(op, kind, call, 0 if kind == "product" else -100, others, op)


_BUDGETS = {f"memory={m}": {"memory": m} for m in ("save", "recompute", 100_000)}
NAMED: dict[str, Callable[[str], Target]] = {
    "logp": lambda device: _ours("logp", "logp", device),
    "linear_logp": lambda device: _ours("linear_logp", "head", device, **_BUDGETS),
    "matmul": lambda device: _ours("matmul", "product", device),
    "torch.mm": lambda device: Target("torch.mm", "product", torch.mm),
    "torch.log_softmax": lambda device: Target("torch.log_softmax", "logp", _torch_logp),
    "torch.linear_logp": lambda device: Target("torch.linear_logp", "head", _torch_linear_logp),
    "cce": lambda _: _losses("cce", "cut_cross_entropy:linear_cross_entropy"),
    "liger": lambda _: _losses(
        "liger", "liger_kernel.transformers.functional:liger_fused_linear_cross_entropy"
    ),
}


def find(name: str, kind: str | None, padding_id: int | None, device: str) -> Target:
    """The target of that name, or the function that `module:function` names.

    Raises:
        CheckError: no such name or function, or a kind that a named target is not of.
    """
    if name in NAMED:
        target = NAMED[name](device)
        if kind not in (None, target.kind):
            raise CheckError(f"--kind {kind}: {name} is of kind {target.kind}")
        if padding_id is not None:
            raise CheckError(f"--padding-id {padding_id}: goes with --target module:function alone")
        return target
    if kind == "product" and padding_id is not None:
        raise CheckError(f"--padding-id {padding_id}: a product has no ids")
    if ":" not in name:
        raise CheckError(f"--target {name}: may be {', '.join(NAMED)} or module:function")
    return Target(name, kind or "logp", load("--target", name), padding_id or 0)
