"""The operators that can be measured: inputs, contestants, what they move or multiply, and their ceilings."""

from collections.abc import Callable

import torch

import samebits as sb

from . import call, ceilings, peers
from .cases import Case, Ceilings, Contestant, Inputs, Operator, normal, random_ids
from .losses import LOSSES

COPIES = 16  # inputs of a decode call


def _item(case: Case) -> int:
    return case.torch_dtype.itemsize


def _rows_upstream(case: Case) -> torch.Tensor:
    dtype = torch.float64 if case.dtype == "fp64" else torch.float32
    return torch.ones(case.tokens, device=case.device, dtype=dtype)


# logp: [tokens, vocab] and ids to [tokens]


def _logp_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    logits = normal(case, case.tokens, case.vocab, scale=3.0, copy=copy)
    return Inputs((logits,), random_ids(case, copy), _rows_upstream(case))


def _logp_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    found = {"read": ceilings.reads(inputs.operands[0])}
    return found | ({"copy": ceilings.copies(inputs.operands[0])} if case.backward else {})


def _logp_least(case: Case) -> dict[str, int]:
    return {"fwd": {"read": 1}, "decode": {"read": 1}, "bwd": {"copy": 1}, "fwdbwd": {"read": 1, "copy": 1}}[
        case.mode
    ]


def _logp_work(case: Case) -> int:
    passes = {"fwd": 1, "decode": 1, "bwd": 2, "fwdbwd": 3}[case.mode]
    return passes * case.tokens * case.vocab * _item(case)


LOGP = Operator(
    summary="log softmax(logits)[target], logits [tokens, vocab]",
    sizes=("vocab",),
    inputs=_logp_inputs,
    contestants=(
        Contestant("samebits", lambda: sb.logp, "samebits", reproducible=True),
        Contestant(
            "samebits with lse and entropy",
            lambda: lambda x, ids: sb.logp(x, ids, return_lse=True, return_entropy=True).logp,
            "samebits", on_request=True, reproducible=True,
        ),
        *peers.OF_LOGITS,
    ),
    ceilings=_logp_ceilings,
    least=_logp_least,
    work=_logp_work,
    unit="B",
    storage=lambda case: case.tokens * case.vocab * (3 if case.backward else 1),
)  # fmt: skip


# linear_logp, linear and matmul: three products of hidden [tokens, hidden] and weight [vocab, hidden]


def _hidden_and_weight(case: Case, copy: int, shared: Inputs | None) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = normal(case, case.tokens, case.hidden, copy=copy)
    if shared is not None:
        return hidden, shared.operands[1]
    return hidden, normal(case, case.vocab, case.hidden, scale=case.hidden**-0.5, copy=-1)


def _head_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    return Inputs(_hidden_and_weight(case, copy, shared), random_ids(case, copy), _rows_upstream(case))


def _product_upstream(case: Case) -> torch.Tensor | None:
    if not case.backward:
        return None
    return torch.ones(case.tokens, case.vocab, device=case.device, dtype=case.torch_dtype)


def _linear_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    return Inputs(_hidden_and_weight(case, copy, shared), None, _product_upstream(case))


def _matmul_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    if shared is not None:
        return Inputs((normal(case, case.tokens, case.hidden, copy=copy), shared.operands[1]), None, None)
    hidden, weight = _hidden_and_weight(case, copy, None)
    return Inputs((hidden, weight.t().contiguous()), None, _product_upstream(case))


def _head_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    hidden, weight = inputs.operands
    if case.mode == "decode":
        return {"read of weight": ceilings.reads(weight)}
    return dict(ceilings.products(hidden, weight, case.backward))


def _matmul_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    a, b = inputs.operands
    return _head_ceilings(case, Inputs((a, b.t() if case.mode != "decode" else b), None, None))


def _three(case: Case) -> dict[str, int]:
    backward = {"grad_hidden": 1, "grad_weight": 1}
    return {
        "fwd": {"product": 1},
        "decode": {"read of weight": 1},
        "bwd": backward,
        "fwdbwd": {"product": 1, **backward},
    }[case.mode]


def _four(case: Case) -> dict[str, int]:
    return {name: count + (name == "product") for name, count in {"product": 0, **_three(case)}.items()}


def _product_work(case: Case) -> int:
    return (
        2 * case.tokens * case.vocab * case.hidden * {"fwd": 1, "decode": 1, "bwd": 2, "fwdbwd": 3}[case.mode]
    )


def _product_storage(case: Case) -> int:
    operands = case.tokens * case.hidden + case.vocab * case.hidden
    results = case.tokens * case.vocab * (0 if case.mode == "decode" else 2 if case.backward else 1)
    return operands * (3 if case.backward else 1) + results


def _in_memory(memory: str) -> Callable:
    return lambda: lambda hidden, weight, ids: sb.linear_logp(hidden, weight, ids, memory=memory)


def _forward_only(case: Case) -> str:
    return "" if case.backward else "the same as samebits without gradients"


LINEAR_LOGP = Operator(
    summary="log softmax(hidden @ weight.T)[target], hidden [tokens, hidden], weight [vocab, hidden]",
    sizes=("vocab", "hidden"),
    inputs=_head_inputs,
    contestants=(
        Contestant("samebits", lambda: sb.linear_logp, "samebits", reproducible=True, note="memory='auto'"),
        Contestant("samebits recompute", _in_memory("recompute"), "samebits", _forward_only, least=_four,
                   reproducible=True, note="memory='recompute': logits twice"),
        *peers.OF_HEADS,
    ),
    ceilings=_head_ceilings,
    least=_three,
    work=_product_work,
    unit="FLOP",
    storage=_product_storage,
)  # fmt: skip
LINEAR = Operator(
    summary="x @ weight.T, x [tokens, hidden], weight [vocab, hidden]",
    sizes=("vocab", "hidden"),
    inputs=_linear_inputs,
    contestants=(
        Contestant("samebits", lambda: sb.linear, "samebits", reproducible=True),
        Contestant("torch linear", lambda: torch.nn.functional.linear),
    ),
    ceilings=_head_ceilings,
    least=_three,
    work=_product_work,
    unit="FLOP",
    storage=_product_storage,
)
MATMUL = Operator(
    summary="a @ b, a [tokens, hidden], b [hidden, vocab]",
    sizes=("vocab", "hidden"),
    inputs=_matmul_inputs,
    contestants=(
        Contestant("samebits", lambda: sb.matmul, "samebits", reproducible=True),
        Contestant("torch matmul", lambda: torch.matmul),
    ),
    ceilings=_matmul_ceilings,
    least=_three,
    work=_product_work,
    unit="FLOP",
    storage=_product_storage,
)


# embedding: ids to rows of weight [vocab, hidden]


def _embedding_inputs(case: Case, copy: int, shared: Inputs | None) -> Inputs:
    weight = shared.operands[0] if shared else normal(case, case.vocab, case.hidden)
    upstream = torch.ones(case.tokens, case.hidden, device=case.device, dtype=case.torch_dtype)
    return Inputs((weight,), random_ids(case, copy), upstream)


def _embedding_ceilings(case: Case, inputs: Inputs) -> Ceilings:
    rows = inputs.upstream
    found: Ceilings = {"copy of rows": ceilings.copies(rows)}
    if case.backward:
        found |= {
            "read of rows": ceilings.reads(rows),
            "fill of gradient": ceilings.fills(inputs.operands[0]),
        }
    return found


def _embedding_least(case: Case) -> dict[str, int]:
    backward = {"read of rows": 1, "fill of gradient": 1}
    forward = {"copy of rows": 1}
    return {"fwd": forward, "decode": forward, "bwd": backward, "fwdbwd": forward | backward}[case.mode]


def _embedding_work(case: Case) -> int:
    rows, weight = case.tokens * case.hidden, case.vocab * case.hidden
    moved = {"fwd": 2 * rows, "decode": 2 * rows, "bwd": rows + weight, "fwdbwd": 3 * rows + weight}
    return moved[case.mode] * _item(case)


EMBEDDING = Operator(
    summary="weight[ids], weight [vocab, hidden], ids [tokens]",
    sizes=("vocab", "hidden"),
    inputs=_embedding_inputs,
    contestants=(
        Contestant("samebits", lambda: lambda weight, ids: sb.embedding(ids, weight), "samebits",
                   reproducible=True),
        *peers.LOOKUPS,
    ),
    ceilings=_embedding_ceilings,
    least=_embedding_least,
    work=_embedding_work,
    unit="B",
    storage=lambda case: case.hidden * (case.vocab * (3 if case.backward else 1) + 3 * case.tokens),
)  # fmt: skip


CALL = Operator(
    summary="logp of few short rows in several ways, where the call itself is what costs",
    sizes=("vocab",),
    inputs=_logp_inputs,
    contestants=call.CONTESTANTS,
    ceilings=lambda case, inputs: {},
    least=lambda case: {},
    work=_logp_work,
    unit="",
    storage=LOGP.storage,
)
OPERATORS = {
    "logp": LOGP,
    "linear_logp": LINEAR_LOGP,
    "linear": LINEAR,
    "matmul": MATMUL,
    "embedding": EMBEDDING,
    **LOSSES,
    "call": CALL,
}
