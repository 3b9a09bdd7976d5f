"""Lookup of embedding rows, with a deterministic gradient."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from . import _checks, _lookup, _options, _torch_private
from ._errors import raise_clearly


def embedding(
    ids: Tensor,
    weight: Tensor,
    *,
    padding_idx: int | None = None,
    on_invalid: Literal["nan", "zero", "raise"] = "nan",
    grad_accumulator: Tensor | None = None,
    backend: str | None = None,
) -> Tensor:
    """Rows of ``weight``: ``weight[ids]``, with a gradient that is summed in a fixed order.

    Determinism level: cross_device (docs/contract.md, "Embedding"). Contract ``embedding.v1``, or
    ``embedding64.v1`` for a float64 weight. Rows are copied bit for bit. A row of the gradient is the sum of
    the upstream over the positions with that id, ascending, in float32 (float64 for float64), rounded once to
    the dtype of ``weight``: it depends on those positions alone.

    Args:
        ids: ``[...]`` int32 or int64, any strides.
        weight: ``[V, H]`` float32, float64, bfloat16 or float16, any strides, neither V nor H 0.
        padding_idx: a row, from the end if negative, that takes no part in the gradient. It is looked up like
            any other.
        on_invalid: what the row of an id outside ``[0, V)`` is: ``"nan"``, ``"zero"``, or ``"raise"``
            (``ValueError`` naming the first such position; waits for the device). Such an id takes no part in
            the gradient.
        grad_accumulator: ``[V, H]`` float32 buffer (float64 for a float64 weight), its last axis dense, to
            which backward adds the gradient, one rounding each, before any rounding to the dtype of
            ``weight``; rows that no id refers to are not touched, and ``weight.grad`` is left alone. Breaks
            the graph of torch.compile; not under transforms or ``create_graph``.
        backend: force one of ``samebits.backends()`` by name.

    Returns:
        ``[..., H]`` of the dtype of ``weight``, differentiable to any order in ``weight``, in reverse and
            forward mode and under the transforms of ``torch.func``.

    Raises:
        ValueError, TypeError: an argument that is not allowed, named in the message.
        RuntimeError: no backend can run it, or the result finds no memory: the message says which.
        NotDifferentiableError: as :func:`logp`; ``grad_accumulator`` under a transform, or a derivative of a
            gradient that went into it.
    """
    _torch_private.refuse_compiled_transform()
    _options.check_semantics(None, on_invalid, None)
    name = _options.backend_name(backend)
    check_embedding(ids, weight)
    padding_row = _options.padding_row(padding_idx, weight.shape[0])
    if grad_accumulator is not None:
        _checks.accumulator("grad_accumulator", grad_accumulator, weight, (("ids", ids), ("weight", weight)))
    lookup = _lookup.lookup if grad_accumulator is None else _lookup.accumulating_lookup
    try:
        return lookup(ids, weight, grad_accumulator, padding_row, on_invalid, name)
    except Exception as error:
        raise_clearly(error, check_embedding, ids, weight)


def check_embedding(ids, weight) -> None:
    """Types, dtypes, devices and shapes of a call."""
    _checks.operands(("ids", "weight"), ids, weight)
    if weight.dim() != 2 or weight.numel() == 0:
        raise ValueError(
            f"weight: has shape {list(weight.shape)}; must be [V, H] with at least one row and one column"
        )
