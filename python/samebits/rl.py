"""Loss terms of policy optimisation, token by token, with bits that do not depend on device or layout.

Each is a fixed row of operations that see one token and round once, with samebits' own exponential
(docs/contract.md, `exp.v1`). Reduce them with :func:`samebits.masked_mean` or :func:`samebits.masked_sum`,
and the loss has the same bits for padded and packed tokens, on a CPU and on a GPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import _checks, _torch_private
from ._exp_tail import exp_tail

__all__ = ["clipped_ratio_loss", "kl_k3", "ratio"]

_WIDE = (torch.float32, torch.float64)


def _check(**values) -> None:
    """Tensors of one dtype, shape and device; the first one says which."""
    _torch_private.refuse_compiled_transform()
    (like_name, like), *_ = values.items()
    for argument, value in values.items():
        _checks.tensor(argument, value)
        _checks.device(argument, value, like, like_name)
        _checks.dtype(argument, value, _WIDE)
        if value.dtype != like.dtype:
            raise TypeError(
                f"{argument}: is {_checks.name(value.dtype)} but {like_name} is {_checks.name(like.dtype)}; "
                "operands of one call must share one dtype"
            )
        if value.shape != like.shape:
            raise ValueError(
                f"{argument}: has shape {list(value.shape)}; must be {list(like.shape)}, that of {like_name}"
            )


def ratio(logp: Tensor, old_logp: Tensor) -> Tensor:
    """The policy ratio ``exp(logp - old_logp)`` of each token; exactly 1 where the two have the same bits.

    Determinism level: cross_device (docs/contract.md, "Loss terms"). Contract ``exp.v1``.

    Args:
        logp: ``[...]`` float32 or float64 log-probabilities under the policy in training.
        old_logp: the same under the policy that sampled, of one dtype and shape.

    Returns:
        ``[...]`` of that dtype; inf where the exponential is beyond the largest number. Differentiable to any
            order in both, in reverse and forward mode and under the transforms of ``torch.func``.

    Raises:
        TypeError, ValueError: an argument that is not allowed, named in the message.
        RuntimeError: the operands are on a device that this build does not compute on.
        NotDifferentiableError: as :func:`samebits.logp`.
    """
    _check(logp=logp, old_logp=old_logp)
    return exp_tail(logp - old_logp, 0)


def clipped_ratio_loss(
    logp: Tensor, old_logp: Tensor, advantages: Tensor, *, low: float = 0.2, high: float = 0.2
) -> Tensor:
    """PPO's and GRPO's clipped surrogate, ``-min(r A, clip(r, 1 - low, 1 + high) A)``, of each token.

    Determinism level: cross_device (docs/contract.md, "Loss terms"). Contract ``exp.v1``. Computed as ``-A``
    times r, or times the bound where r is beyond the one that binds (the upper one where A >= 0, the lower
    one elsewhere): one subtraction, one product, and the exponential twice, once to see where it is beyond.

    Args:
        logp: ``[...]`` float32 or float64 log-probabilities under the policy in training.
        old_logp: the same under the policy that sampled.
        advantages: A of each token, of one dtype and shape with them (``expand`` a number per sequence).
        low: how far below 1 the ratio counts, 0 to 1.
        high: how far above 1 the ratio counts, 0 to the largest number of that dtype.

    Returns:
        ``[...]`` of that dtype. Its gradient is ``-A r``, and +0 where the bound was taken (not where r is on
            it). Differentiable as :func:`ratio` is.

    Raises:
        TypeError, ValueError, RuntimeError, NotDifferentiableError: as :func:`ratio`.
    """
    _check(logp=logp, old_logp=old_logp, advantages=advantages)
    largest = torch.finfo(logp.dtype).max
    for argument, value, most in (("low", low, 1.0), ("high", high, largest)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{argument}: is a {type(value).__name__}; must be a number")
        if not 0 <= value <= most:
            allowed = (
                "0 to 1" if argument == "low" else f"0 to {most:.8g}, the largest {_checks.name(logp.dtype)}"
            )
            raise ValueError(f"{argument}: is {value}; must be {allowed}")
    difference = logp - old_logp
    r = exp_tail(difference.detach(), 0)
    upper, lower = (torch.full((), 1.0 + x, dtype=r.dtype, device=r.device) for x in (high, -low))
    rewarded = advantages >= 0
    beyond = torch.where(rewarded, r > upper, r < lower)  # false for NaN, which so stays
    # Where the bound is taken the exponential is that of 0: no gradient of 0 meets an infinite one.
    r = exp_tail(torch.where(beyond, 0.0, difference), 0)
    return -advantages * torch.where(beyond, torch.where(rewarded, upper, lower), r)


def kl_k3(logp: Tensor, reference_logp: Tensor) -> Tensor:
    """The k3 estimate of KL(policy, reference), ``exp(d) - 1 - d`` with ``d = reference_logp - logp``.

    Determinism level: cross_device (docs/contract.md, "Loss terms"). Contract ``exp.v1``. Not computed as
    three terms that cancel: it is never negative and keeps its digits where the two policies nearly agree.

    Args:
        logp: ``[...]`` float32 or float64 log-probabilities under the policy in training.
        reference_logp: the same under the reference policy, of one dtype and shape.

    Returns:
        ``[...]`` of that dtype, 0 where the two have the same bits. Its gradient with respect to ``logp`` is
            ``1 - exp(d)``. Differentiable as :func:`ratio` is.

    Raises:
        TypeError, ValueError, RuntimeError, NotDifferentiableError: as :func:`ratio`.
    """
    _check(logp=logp, reference_logp=reference_logp)
    return exp_tail(reference_logp - logp, 2)
