"""What can be judged: the backends of the library, compositions of PyTorch, and any function by its name."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

import samebits
from samebits import rl
from samebits.check.callables import load
from samebits.check.errors import CheckError
from samebits.check.op.exact_losses import HIGH, LOW
from samebits.check.op.operators import Operator, results

CHECKPOINT = "random@check"  # what the strict operators are told that their weights are


@dataclass(frozen=True)
class Candidate:
    """An implementation of one operator."""

    name: str
    call: Callable
    """``call(everything, *operands)``; `everything`: all outputs, not only that which has a gradient."""
    own: bool = False
    """Of the library: takes any leading shape, and rows that take no part."""
    runs: dict = field(default_factory=dict)
    """What is known of how it runs: contract, backend, kernels."""

    def outputs(self, operator: Operator, operands: dict[str, Tensor], everything: bool) -> dict[str, Tensor]:
        """Its results by name.

        Raises:
            CheckError: it raised, or what it returned is no result of the operator.
        """
        try:
            return results(operator, self.call(everything, *operands.values()))
        except CheckError:
            raise
        except Exception as error:  # any: the function is a stranger's
            text = (str(error).strip() or "no reason given").splitlines()[0]
            raise CheckError(
                f"--candidate {self.name}: cannot run {operator.name}: {type(error).__name__}: {text}"
            ) from error


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _gathered(logits: Tensor, targets: Tensor) -> Tensor:
    return _wide(logits).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return -functional.cross_entropy(_wide(logits), targets, reduction="none")


_HEADS = {
    "torch": lambda hidden, weight, targets: _gathered(functional.linear(hidden, weight), targets),
    "torch-cross-entropy": lambda h, w, targets: _cross_entropy(functional.linear(h, w), targets),
}
_LOOKUPS = {"torch": functional.embedding}


def _masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return _masked_sum(values, mask) / mask.sum()


def _masked_sum(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, _wide(values), 0.0).sum()


def _clipped(logp: Tensor, old: Tensor, advantages: Tensor) -> Tensor:
    ratio = (logp - old).exp()
    return -torch.min(ratio * advantages, ratio.clamp(1 - LOW, 1 + HIGH) * advantages)


def _divergence(logp: Tensor, reference: Tensor) -> Tensor:
    return (reference - logp).exp() - (reference - logp) - 1


COMPOSITIONS: dict[str, dict[str, Callable]] = {
    "logp": {"torch": _gathered, "torch-cross-entropy": _cross_entropy},
    "linear_logp": _HEADS,
    "matmul": {"torch": torch.mm},
    "linear": {"torch": functional.linear},
    "embedding": _LOOKUPS,
    "masked_sum": {"torch": _masked_sum},
    "masked_mean": {"torch": _masked_mean},
    "ratio": {"torch": lambda logp, old: (logp - old).exp()},
    "clipped_ratio_loss": {"torch": _clipped},
    "kl_k3": {"torch": _divergence},
    "nemotron_h_lm_head_logprob": _HEADS,
    "nemotron_h_embedding": _LOOKUPS,
}
"""PyTorch's own, by operator; with logits, products and gradients in the dtype of the operands."""


# Made of torch's operators, on any device: there is nothing to choose, and no plan.
_PLAIN: dict[str, tuple[Callable, str]] = {
    "masked_sum": (samebits.masked_sum, "sum.v1"),
    "masked_mean": (samebits.masked_mean, "sum.v1"),
    "ratio": (rl.ratio, "exp.v1"),
    "clipped_ratio_loss": (rl.clipped_ratio_loss, "exp.v1"),
    "kl_k3": (rl.kl_k3, "exp.v1"),
}


def names(operator: Operator) -> list[str]:
    """Candidates that have a name, whether or not they can run here."""
    backends = [] if operator.name in _PLAIN else [*(b.name for b in samebits.backends()), "cuda-NAME"]
    return ["auto", *backends, *COMPOSITIONS[operator.name]]


def find(operator: Operator, name: str, operands: dict[str, Tensor], contract: str) -> Candidate:
    """The candidate of that name for these operands.

    Args:
        operator: what it has to compute.
        name: ``auto``, a backend, ``cuda-NAME`` (the CUDA backend, where NAME is the engine or the
            architecture that a plan shows), a composition of PyTorch, or ``module:function``.
        operands: by name, on the device that is to compute.
        contract: of products, for the library's own: auto, fma or tc16.

    Raises:
        CheckError: there is none, or it cannot run here; with the reasons.
    """
    if ":" in name:
        function = load("--candidate", name)
        return Candidate(name, lambda everything, *operands: function(*operands))
    if name in COMPOSITIONS[operator.name]:
        function = COMPOSITIONS[operator.name][name]
        return Candidate(name, lambda everything, *operands: function(*operands))
    if operator.name in _PLAIN and name == "auto":
        function, contract = _PLAIN[operator.name]
        return Candidate(
            name, lambda everything, *operands: function(*operands), True, {"contract": contract}
        )
    engine = name.removeprefix("cuda-") if name.startswith("cuda-") else ""
    backend = None if name == "auto" else "cuda" if engine else name
    known = operator.name not in _PLAIN and backend in (None, *(b.name for b in samebits.backends()))
    if not known:
        raise CheckError(
            f"--candidate {name}: is unknown; may be {', '.join(names(operator))} or module:function"
        )
    if engine and _is_engine(operator, engine, operands, contract):
        backend, engine = engine, ""  # the engines of products can be asked for by name
    plan = _plan(operator, operands, contract, backend)
    if not plan.can_run:
        raise CheckError(f"--candidate {name}: cannot run {operator.name}: {'; '.join(plan.refusals)}")
    _require(name, backend, engine, plan)
    runs = {key: plan.provenance[key] for key in ("contract", "backend", "kernels", "engines", "device_probe")
            if key in plan.provenance}  # fmt: skip
    return Candidate(name, _own(operator, contract, backend), True, runs)


def _require(name: str, backend: str | None, engine: str, plan: samebits.Plan) -> None:
    choices = {choice.name: choice for choice in plan.backends}
    for asked in (backend, engine):
        if asked in choices and not choices[asked].taken:
            raise CheckError(f"--candidate {name}: {plan.op} does not take it: {choices[asked].reason}")
    if engine and engine not in choices and not any(f"/cuda-{engine}" in kernel for kernel in plan.kernels):
        raise CheckError(f"--candidate {name}: the kernels of {plan.op} are {', '.join(plan.kernels)}")


def _is_engine(operator: Operator, engine: str, operands: dict[str, Tensor], contract: str) -> bool:
    if operator.name not in ("matmul", "linear"):
        return False
    return engine in _plan(operator, operands, contract, "cuda").provenance.get("engines", {})


def _plan(operator: Operator, operands: dict[str, Tensor], contract: str, backend: str | None):
    tensors = tuple(operands.values())
    if operator.model is not None:
        return _strict(operator, operands["weight"]).plan()
    options = {} if operator.name in ("logp", "embedding") else {"contract": contract}
    op = "matmul" if operator.name == "linear" else operator.name
    if operator.name == "linear":
        tensors = tensors[0], tensors[1].t()
    return samebits.plan(op, *tensors, backend=backend, **options)


def _strict(operator: Operator, weight: Tensor):
    kind = "proven" if weight.is_cuda else "twin"
    return operator.model(weight, checkpoint=CHECKPOINT, device_contract=kind)


def _own(operator: Operator, contract: str, backend: str | None) -> Callable:
    products = {"contract": contract, "backend": backend}

    def both(everything: bool) -> dict:
        return {"return_lse": everything, "return_entropy": everything}

    return {
        "logp": lambda all_, *t: samebits.logp(*t, **both(all_), backend=backend),
        "linear_logp": lambda all_, *t: samebits.linear_logp(*t, **both(all_), **products),
        "matmul": lambda all_, *t: samebits.matmul(*t, **products),
        "linear": lambda all_, *t: samebits.linear(*t, **products),
        "embedding": lambda all_, *t: samebits.embedding(*t, backend=backend),
        "nemotron_h_lm_head_logprob": lambda all_, hidden, weight, targets: _strict(operator, weight).logp(
            hidden, targets, **both(all_)
        ),
        "nemotron_h_embedding": lambda all_, ids, weight: _strict(operator, weight).lookup(ids),
    }[operator.name]
