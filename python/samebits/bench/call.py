"""What a call costs in itself: few short rows, from Python, in several ways."""

import torch

import samebits as sb

from .cases import Case, Contestant, Function
from .peers import log_softmax_and_gather


def _forward_only(case: Case) -> str:
    return "forward only" if case.backward else ""


def _with_out() -> Function:
    kept: dict[torch.Size, torch.Tensor] = {}

    def call(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        if ids.shape not in kept:
            kept[ids.shape] = sb.logp(logits, ids)
        return sb.logp(logits, ids, out=kept[ids.shape])

    return call


def _recording(function: Function) -> Function:
    """The graph of backward is made, and dropped."""

    def call(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            return function(logits.detach().requires_grad_(), ids).detach()

    return call


def _samebits(name: str, make, note: str = "", refusal=_forward_only) -> Contestant:
    return Contestant(name, make, "samebits", refusal, note, reproducible=True)


CONTESTANTS = (
    _samebits("samebits", lambda: sb.logp, refusal=lambda case: ""),
    _samebits("operator alone", lambda: torch.ops.samebits.logp.default, "without the Python front"),
    _samebits(
        "samebits with lse and entropy",
        lambda: lambda x, ids: sb.logp(x, ids, return_lse=True, return_entropy=True).logp,
    ),
    _samebits("samebits with temperature", lambda: lambda x, ids: sb.logp(x, ids, temperature=1.0)),
    _samebits("samebits with out", _with_out),
    _samebits("samebits recording", lambda: _recording(sb.logp), "with detach, requires_grad_ and detach"),
    Contestant("torch log_softmax", lambda: log_softmax_and_gather),
    Contestant(
        "torch log_softmax recording",
        lambda: _recording(log_softmax_and_gather),
        refusal=_forward_only,
        note="with detach, requires_grad_ and detach",
    ),
)
