"""The operators with operands whose shapes tell a large tensor from the others."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.func import grad, vmap

import samebits as sb
from samebits.check.probe.paths import Operator, Path, ones_like, scalar


def _normal(*shape: int, options: dict[str, Any]) -> Tensor:
    return torch.randn(shape, device=options["device"]).to(options["dtype"])


def _ids(count: int, below: int, options: dict[str, Any]) -> Tensor:
    return torch.arange(count, device=options["device"]) % below


def _keywords(options: dict[str, Any]) -> dict[str, Any]:
    return {"backend": options["backend"]}


def logp(options: dict[str, Any]) -> Operator:
    """Logits ``[64, 5000]``."""
    logits, targets = _normal(64, 5000, options=options), _ids(64, 5000, options)
    rows = torch.tensor([1, 5, 63], device=targets.device)
    out = torch.zeros(64, device=targets.device, dtype=sb.logp(logits[:1], targets[:1]).dtype)
    wide, keywords = logits.double(), _keywords(options)

    def call(x: Tensor) -> Tensor:
        return sb.logp(x, targets, **keywords)

    operator = Operator(
        "logp", call, (logits,), logits.numel(), "logp_forward", "logp_backward", ("probability", "row_sum"),
        lambda: vmap(grad(lambda x, t: sb.logp(x, t, **keywords)))(logits, targets), options,
    )  # fmt: skip
    forward, once = frozenset({"logp_forward"}), frozenset({"logp_forward", "logp_backward"})
    leaf = wide.detach().requires_grad_()
    ones = torch.ones(64, device=wide.device, dtype=torch.float64)
    extra = (
        Path("float64", lambda: torch.autograd.grad(call(leaf), leaf, ones), once, "fused",
             {"dtype": torch.float64}),
        Path("rows=", lambda: sb.logp(logits, targets, rows=rows, **keywords), forward),
        Path("out=", lambda: sb.logp(logits, targets, out=out, **keywords), forward),
        *_modes(operator, forward, once),
    )  # fmt: skip
    return _with(operator, extra)


def linear_logp(options: dict[str, Any]) -> Operator:
    """Hidden ``[128, 64]`` and a head of 2000 tokens; logits would be larger than both."""
    hidden, weight = _normal(128, 64, options=options), _normal(2000, 64, options=options)
    targets, keywords = _ids(128, 2000, options), _keywords(options)

    def call(h: Tensor, w: Tensor, **more) -> Tensor:
        return sb.linear_logp(h, w, targets, **keywords, **more)

    operator = Operator(
        "linear_logp", call, (hidden, weight), 128 * 2000, "linear_logp_forward", "linear_logp_backward",
        ("matmul", "logp_backward", "probability", "row_sum"),
        lambda: vmap(grad(lambda h, t: sb.linear_logp(h, weight, t, **keywords)))(hidden, targets), options,
        ("matmul", "logp"),
    )  # fmt: skip
    forward = frozenset({"linear_logp_forward"})
    once = forward | {"linear_logp_backward"}
    sums = torch.zeros(2000, 64, device=hidden.device,
                       dtype=torch.float64 if hidden.dtype == torch.float64 else torch.float32)  # fmt: skip

    def budget(memory: str) -> Path:
        return Path(f"memory={memory}", lambda: operator.step(lambda h, w: call(h, w, memory=memory)), once)

    def accumulate():
        leaves = [leaf.detach().requires_grad_() for leaf in (hidden, weight)]
        value = call(*leaves, grad_weight_accumulator=sums)
        torch.autograd.grad(value, leaves, ones_like(value), allow_unused=True)

    extra = (
        budget("save"),
        budget("recompute"),
        Path("grad_weight_accumulator", accumulate, once),
        *_modes(operator, forward, once),
    )
    return _with(operator, extra)


def matmul(options: dict[str, Any]) -> Operator:
    """``linear`` of ``[256, 512]``, a weight ``[384, 512]`` and a bias."""
    x, weight = _normal(256, 512, options=options), _normal(384, 512, options=options)
    bias, odd = _normal(384, options=options), _normal(384, 511, options=options)
    keywords = _keywords(options)

    def call(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return sb.linear(a, b, c, **keywords)

    operator = Operator(
        "matmul", call, (x, weight, bias), 256 * 384, "matmul", "matmul", (),
        lambda: vmap(grad(lambda a: scalar(call(a, weight, bias))))(x), options,
    )  # fmt: skip
    once = frozenset({"matmul"})
    extra = [
        Path("sb.matmul", lambda: sb.matmul(x, weight.t(), **keywords), once),
        Path("rows of 511", lambda: sb.matmul(odd, odd.t(), **keywords), once),
    ]
    if x.element_size() == 2:
        extra.append(
            Path("contract=fma", lambda: sb.matmul(x, weight.t(), contract="fma", **keywords), once, "fused",
                 {"contract": "fma"})
        )  # fmt: skip
    if "cublaslt" in sb.plan("matmul", x).provenance.get("engines", {}) and x.element_size() == 2:
        extra.append(
            Path("backend=cublaslt", lambda: sb.matmul(x, weight.t(), backend="cublaslt"), once, "fused",
                 {"backend": "cublaslt"})
        )  # fmt: skip
    return _with(operator, (*extra, *_modes(operator, once, once)))


def embedding(options: dict[str, Any]) -> Operator:
    """400 ids of a table ``[300, 64]``."""
    weight, ids, keywords = _normal(300, 64, options=options), _ids(400, 250, options), _keywords(options)

    def call(w: Tensor) -> Tensor:
        return sb.embedding(ids, w, **keywords)

    def gradient(w: Tensor, i: Tensor) -> Tensor:
        return grad(lambda table: scalar(sb.embedding(i, table, **keywords)))(w)

    operator = Operator(
        "embedding", call, (weight,), weight.numel(), "embedding_forward", "embedding_backward", (),
        lambda: vmap(gradient, in_dims=(None, 0))(weight, ids.view(4, 100)), options,
    )  # fmt: skip
    forward = frozenset({"embedding_forward"})
    return _with(operator, _modes(operator, forward, forward | {"embedding_backward"}))


def _modes(operator: Operator, forward: frozenset[str], once: frozenset[str]) -> tuple[Path, ...]:
    """Autocast, and on a GPU a graph."""
    device = operator.leaves[0].device.type

    def autocast():
        with torch.autocast(device, dtype=torch.bfloat16):
            operator.step(operator.call)

    def graph():
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            operator.call(*operator.leaves)
        captured.replay()

    paths = (Path("autocast", autocast, once),)
    return (*paths, Path("CUDA graph", graph, forward)) if device == "cuda" else paths


def _with(operator: Operator, extra: tuple[Path, ...]) -> Operator:
    return Operator(**{**vars(operator), "extra": extra})


OPERATORS: dict[str, Callable[[dict[str, Any]], Operator]] = {
    "logp": logp, "linear_logp": linear_logp, "matmul": matmul, "embedding": embedding,
}  # fmt: skip
