"""Every operator on one batch of rows, by way of the dispatcher, and the curvature by way of autograd."""

import torch

import samebits as sb

from . import inputs
from .inputs import Case

OPS = torch.ops.samebits


def outputs(case: Case, rows: torch.Tensor) -> dict[str, torch.Tensor]:
    """Name -> tensor with one entry (or row) for each row number in `rows`, on their device."""
    logits, targets = inputs.logits(case, rows), inputs.targets(case, rows)
    options = {name: value for name, value in case.options.items() if name != "precision"}
    options["binary64"] = case.options.get("precision") == "fp64"
    grads = [inputs.upstream(case, rows, name) for name in ("logp", "lse", "entropy")]
    logp, lse, entropy, *stats = OPS.logp_forward(logits, targets, True, True, True, **options)
    p = OPS.probability(logits, targets, *stats[:2], **options)
    return {
        "logp": logp,
        "lse": lse,
        "entropy": entropy,
        "row_max": stats[0],
        "row_sum": stats[1],
        "row_entropy_sum": stats[2],
        "gradient": OPS.logp_backward(logits, targets, *stats, *grads, **options),
        "probability": p,
        "sum_of_probabilities": OPS.row_sum(p),
        "curvature": _curvature(case, rows, logits, targets, grads),
    }


def _curvature(case: Case, rows: torch.Tensor, logits, targets, grads) -> torch.Tensor:
    """The derivative of <gradient, direction>: the composed path that every higher order takes."""
    leaf = logits.detach().requires_grad_()
    results = sb.logp(leaf, targets, return_lse=True, return_entropy=True, **case.options)
    (gradient,) = torch.autograd.grad(results, leaf, grads, create_graph=True)
    (second,) = torch.autograd.grad(gradient, leaf, inputs.direction(case, rows))
    return second.detach()
