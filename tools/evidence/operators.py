"""Every operator on one batch of rows, by way of the dispatcher, and the curvature by way of autograd."""

import torch

import samebits as sb

from .inputs import Batch, Case

OPS = torch.ops.samebits


def outputs(case: Case, batch: Batch) -> dict[str, torch.Tensor]:
    """Name -> tensor with one entry (or row) for each row of the batch, on its device."""
    logits, targets, grads, _ = batch
    options = {name: value for name, value in case.options.items() if name != "precision"}
    options["binary64"] = case.options.get("precision") == "fp64"
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
        "curvature": _curvature(case, batch),
    }


def _curvature(case: Case, batch: Batch) -> torch.Tensor:
    """The derivative of <gradient, direction>: the composed path that every higher order takes."""
    logits, targets, grads, direction = batch
    leaf = logits.detach().requires_grad_()
    results = sb.logp(leaf, targets, return_lse=True, return_entropy=True, **case.options)
    (gradient,) = torch.autograd.grad(results, leaf, grads, create_graph=True)
    (second,) = torch.autograd.grad(gradient, leaf, direction)
    return second.detach()
