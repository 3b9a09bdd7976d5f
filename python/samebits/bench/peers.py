"""Other implementations, where they are installed. `make` imports what it needs and raises if it cannot."""

import functools
import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable

import torch
import torch.nn.functional as F

from .cases import Case, Contestant, Function

DISTRIBUTIONS = {
    "liger_kernel": "liger-kernel",
    "quack": "quack-kernels",
    "cut_cross_entropy": "cut-cross-entropy",
}


def version(package: str) -> str | None:
    """Of an installed package, by the name it is imported under; None if it is not installed."""
    if importlib.util.find_spec(package) is None:
        return None
    try:
        return importlib.metadata.version(DISTRIBUTIONS.get(package, package))
    except importlib.metadata.PackageNotFoundError:
        return getattr(importlib.import_module(package), "__version__", "unknown version")


def unavailable(contestant: Contestant) -> str:
    """Why it cannot take part in anything on this machine; empty if it can."""
    if importlib.util.find_spec(contestant.package) is None:
        name = DISTRIBUTIONS.get(contestant.package, contestant.package)
        return f"not installed: pip install {name}"
    try:
        contestant.make()
    except Exception as error:  # a package may break in any way while it is imported
        return f"does not load: {one_line(error)}"
    return ""


def one_line(error: BaseException) -> str:
    """Type and the beginning of the message."""
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def _needs_gpu(case: Case) -> str:
    return "" if case.torch_device.type == "cuda" else "needs a CUDA device"


def _no_fp64(case: Case) -> str:
    return _needs_gpu(case) or ("no fp64" if case.dtype == "fp64" else "")


def _waiting(refusal: Callable[[Case], str]) -> Callable[[Case], str]:
    """Also refuses what is captured: the contestant asks the device for a number on the way."""

    def refuses(case: Case) -> str:
        if reason := refusal(case):
            return reason
        return "waits for the device, which no CUDA graph can hold" if case.mode == "decode" else ""

    return refuses


def _hopper_bf16(case: Case) -> str:
    if reason := _needs_gpu(case):
        return reason
    if torch.cuda.get_device_capability(case.torch_device) != (9, 0):
        return "needs compute capability 9.0"
    return "" if case.dtype == "bf16" else "bf16 alone"


def _half_only(case: Case) -> str:
    return _needs_gpu(case) or ("" if case.dtype in ("bf16", "fp16") else "bf16 and fp16 alone")


def _compiled(function: Function) -> Function:
    """torch.compile is asked at the first call, for it loads a compiler."""
    ready = functools.cache(lambda: torch.compile(function))
    return lambda *tensors: ready()(*tensors)


# Cross entropies of given logits: f(logits, targets) -> [tokens]


def log_softmax_and_gather(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """What most trainers do: log_softmax in float32 at least, then gather."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(wide, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def _torch_cross_entropy() -> Function:
    return lambda logits, targets: F.cross_entropy(logits, targets, reduction="none")


def _quack_cross_entropy() -> Function:
    from quack.cross_entropy import cross_entropy

    return lambda logits, targets: cross_entropy(logits, targets, reduction="none")


def _liger_cross_entropy() -> Function:
    from liger_kernel.transformers.functional import liger_cross_entropy

    return lambda logits, targets: liger_cross_entropy(logits, targets, reduction="none")


OF_LOGITS = (
    Contestant("torch log_softmax", lambda: log_softmax_and_gather, note="float32 log_softmax, then gather"),
    Contestant("torch cross_entropy", _torch_cross_entropy, sign=-1, note="in the dtype given"),
    Contestant("torch.compile", lambda: _compiled(log_softmax_and_gather), on_request=True,
               note="of float32 log_softmax, then gather"),
    Contestant("QuACK", _quack_cross_entropy, "quack", _no_fp64, sign=-1),
    Contestant("Liger", _liger_cross_entropy, "liger_kernel", _waiting(_no_fp64), sign=-1, overwrites=True,
               note="overwrites the logits; with gradients, its forward computes them"),
)  # fmt: skip


# Cross entropies of an LM head: f(hidden, weight, targets) -> [tokens], or their sum


def _unfused(of_logits: Function) -> Function:
    return lambda hidden, weight, targets: of_logits(hidden @ weight.t(), targets)


def _quack_head() -> Function:
    from quack.linear_cross_entropy import chunked_linear_cross_entropy

    return lambda hidden, weight, targets: chunked_linear_cross_entropy(
        hidden, weight, targets, reduction="sum"
    )


def _liger_hopper_head() -> Function:
    from liger_kernel.ops.cutedsl.ops.fused_scaled_cross_entropy_sm90 import (
        LigerFusedScaledCrossEntropySM90Function,
    )

    os.environ.setdefault("LIGER_SCALED_CE_SM90_VALIDATE_TARGETS", "0")  # the check waits for the device
    return LigerFusedScaledCrossEntropySM90Function.apply


def _liger_head() -> Function:
    from liger_kernel.transformers.functional import liger_fused_linear_cross_entropy

    return lambda hidden, weight, targets: liger_fused_linear_cross_entropy(
        hidden, weight, targets, reduction="none"
    )


def _cce_head() -> Function:
    from cut_cross_entropy import linear_cross_entropy

    return lambda hidden, weight, targets: linear_cross_entropy(hidden, weight, targets, reduction="none")


OF_HEADS = (
    Contestant("torch log_softmax", lambda: _unfused(log_softmax_and_gather),
               note="logits in the operands' dtype, float32 log_softmax, then gather"),
    Contestant("torch cross_entropy", lambda: _unfused(_torch_cross_entropy()), sign=-1,
               note="logits and F.cross_entropy in the operands' dtype"),
    Contestant("torch.compile", lambda: _compiled(_unfused(log_softmax_and_gather)), on_request=True,
               note="of logits, float32 log_softmax, then gather"),
    Contestant("QuACK", _quack_head, "quack", _half_only, sign=-1, summed=True,
               note="gives the sum over the tokens alone"),
    Contestant("Liger SM90", _liger_hopper_head, "liger_kernel", _hopper_bf16, sign=-1),
    Contestant("Liger", _liger_head, "liger_kernel", _waiting(_no_fp64), sign=-1,
               note="Triton; chunks of the tokens"),
    Contestant("CCE", _cce_head, "cut_cross_entropy", _waiting(_half_only), sign=-1,
               note="leaves small gradients out (its default filter)"),
)  # fmt: skip


# Lookups: f(weight, ids) -> [tokens, hidden]


def _liger_embedding() -> Function:
    from liger_kernel.ops.experimental.embedding import LigerEmbeddingFunction

    return LigerEmbeddingFunction.apply


LOOKUPS = (
    Contestant("torch embedding", lambda: lambda weight, ids: F.embedding(ids, weight)),
    Contestant("torch index_select", lambda: lambda weight, ids: weight.index_select(0, ids)),
    Contestant("Liger", _liger_embedding, "liger_kernel", _no_fp64),
)


# Sums and means: f(values, mask) -> []


def _where_sum(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    wide = values if values.dtype == torch.float64 else values.float()
    return torch.where(mask, wide, 0).sum()


SUMS = (Contestant("torch where, sum", lambda: _where_sum, note="in float32 at least"),)
MEANS = (
    Contestant(
        "torch where, sum", lambda: lambda values, mask: _where_sum(values, mask) / mask.sum(),
        note="in float32 at least, divided by the number in the mask",
    ),
)  # fmt: skip


# Loss terms of each token: f(logp, old or reference logp, ...) -> [tokens]


def _clipped(logp: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor) -> torch.Tensor:
    ratio = torch.exp(logp - old)
    return -torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)


def _k3(logp: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    apart = reference - logp
    return torch.exp(apart) - 1 - apart


TERMS = {
    "ratio": Contestant("torch exp", lambda: lambda logp, old: torch.exp(logp - old)),
    "clipped_ratio_loss": Contestant("torch minimum, clamp", lambda: _clipped),
    "kl_k3": Contestant("torch exp", lambda: _k3),
}
