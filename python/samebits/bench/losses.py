"""What a loss is made of: terms of each token, and their sum or mean under a mask."""

from collections.abc import Callable
from functools import partial

import torch

import samebits as sb

from . import ceilings, peers
from .cases import Case, Ceilings, Contestant, Inputs, Operator, normal


def _ones(case: Case, *shape: int) -> torch.Tensor:
    dtype = torch.float64 if case.dtype == "fp64" else torch.float32
    return torch.ones(shape, device=case.device, dtype=dtype)


# masked_sum, masked_mean: values [tokens] under a mask


def _masked_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    values = normal(case, case.tokens, copy=copy)
    return Inputs((values,), values > -1, _ones(case))


def _masked_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    found: Ceilings = {"read": ceilings.reads(inputs.operands[0])}
    return found | ({"fill": ceilings.fills(inputs.operands[0])} if case.backward else {})


def _masked_least(case: Case) -> dict[str, int]:
    return {"bwd": {"fill": 1}, "fwdbwd": {"read": 1, "fill": 1}}.get(case.mode, {"read": 1})


def _masked(summary: str, function: Callable, others: tuple[Contestant, ...]) -> Operator:
    return Operator(
        summary=summary,
        sizes=(),
        inputs=_masked_inputs,
        contestants=(
            Contestant("samebits", lambda: function, "samebits", reproducible=True),
            *others,
        ),
        ceilings=_masked_ceilings,
        least=_masked_least,
        work=lambda case: case.tokens * case.torch_dtype.itemsize * (2 if case.mode == "fwdbwd" else 1),
        unit="B",
        storage=lambda case: 3 * case.tokens,
    )


# ratio, clipped_ratio_loss, kl_k3: log-probs [tokens], and advantages


def _term_inputs(operands: int, case: Case, copy: int, shared: Inputs | None) -> Inputs:
    logp = -normal(case, case.tokens, copy=copy).abs()
    other = logp + normal(case, case.tokens, scale=0.1, copy=-1 - copy)
    advantages = normal(case, case.tokens, copy=1000 + copy)
    return Inputs((logp, other, advantages)[:operands], None, _ones(case, case.tokens))


def _term_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    values = inputs.operands[0]
    return {"read": ceilings.reads(values), "fill": ceilings.fills(values)}


def _term_least(operands: int, case: Case) -> dict[str, int]:
    """Forward: the operands, and a result. Backward: them and the upstream, and a gradient of each."""
    forward, backward = (operands, 1), (operands + 1, operands)
    reads, fills = {
        "fwd": forward,
        "decode": forward,
        "bwd": backward,
        "fwdbwd": (forward[0] + backward[0], forward[1] + backward[1]),
    }[case.mode]
    return {"read": reads, "fill": fills}


def _term_work(operands: int, case: Case) -> int:
    return case.tokens * case.torch_dtype.itemsize * sum(_term_least(operands, case).values())


def _term(summary: str, function: Callable, operands: int, other: Contestant) -> Operator:
    return Operator(
        summary=summary,
        sizes=(),
        inputs=partial(_term_inputs, operands),
        contestants=(Contestant("samebits", lambda: function, "samebits", reproducible=True), other),
        ceilings=_term_ceilings,
        least=partial(_term_least, operands),
        work=partial(_term_work, operands),
        unit="B",
        storage=lambda case: (2 * operands + 3) * case.tokens,
    )


LOSSES = {
    "masked_sum": _masked("sum of values[mask], values [tokens]", sb.masked_sum, peers.SUMS),
    "masked_mean": _masked("mean of values[mask], values [tokens]", sb.masked_mean, peers.MEANS),
    "ratio": _term("exp(logp - old_logp), [tokens]; fp32, fp64", sb.rl.ratio, 2, peers.TERMS["ratio"]),
    "clipped_ratio_loss": _term(
        "clipped surrogate of each token, [tokens]; fp32, fp64", sb.rl.clipped_ratio_loss, 3,
        peers.TERMS["clipped_ratio_loss"],
    ),
    "kl_k3": _term("k3 of each token, [tokens]; fp32, fp64", sb.rl.kl_k3, 2, peers.TERMS["kl_k3"]),
}  # fmt: skip
