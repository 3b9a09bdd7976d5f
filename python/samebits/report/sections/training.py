"""Three steps of SGD on the same tokens in several layouts: the parameters end bit-equal."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import samebits as sb
from samebits.demo.threads import torch_threads
from samebits.report.case import Case
from samebits.report.context import DTYPES, Context, judged, same_bits, skipped

TITLE = "Three steps of SGD"
ABOUT = (
    "A small language model (embedding and linear_logp), a linear layer under logp, and logits trained "
    "directly, three steps of SGD with momentum: every parameter must end with the same bits in every layout "
    "of the same tokens, and the loss must fall."
)
LENGTHS = (7, 1, 12, 5)  # tokens of each sequence
VOCAB, SIZE, STEPS = 331, 24, 3
METHODS = ("repeat", "padding", "chunk", "reorder", "memory", "threads")


class Tokens(NamedTuple):
    """Inputs and targets of a batch in one layout; padding has the target -100."""

    inputs: Tensor
    targets: Tensor
    places: Tensor  # of each token in the batch
    parts: tuple[int, ...] = ()  # sizes of calls, one after the other
    memory: str = "auto"


_SUMS = "the sums over tokens of this model follow their order and calls"
Parameters = dict[str, Tensor]


class Model(NamedTuple):
    """`logp(parameters, tokens)` gives a value for each place of the batch."""

    operator: str
    shapes: dict[str, tuple[int, ...]]
    logp: Callable[[Parameters, Tokens], Tensor]
    layouts: tuple[str, ...]
    dtypes: tuple[str, ...] = tuple(DTYPES)


def _language_model(parameters: Parameters, tokens: Tokens) -> Tensor:
    hidden = sb.embedding(tokens.inputs, parameters["embedding"], on_invalid="zero")
    return sb.linear_logp(hidden, parameters["head"], tokens.targets, memory=tokens.memory)


def _linear_layer(parameters: Parameters, tokens: Tokens) -> Tensor:
    states = torch.randn(VOCAB, SIZE, generator=torch.Generator().manual_seed(7))
    weight = parameters["weight"]
    x = states.to(weight)[tokens.inputs.clamp(min=0)]
    return _logp(sb.linear(x, weight, parameters["bias"]), tokens)


def _table(parameters: Parameters, tokens: Tokens) -> Tensor:
    """Each token has its own row of logits; padding reads a row of its own."""
    return _logp(parameters["logits"][tokens.places], tokens)


def _logp(logits: Tensor, tokens: Tokens) -> Tensor:
    if not tokens.parts:
        return sb.logp(logits, tokens.targets)
    pairs = zip(logits.split(tokens.parts), tokens.targets.split(tokens.parts), strict=True)
    return torch.cat([sb.logp(part, targets) for part, targets in pairs])


MODELS = (
    Model(
        "embedding, linear_logp", {"embedding": (VOCAB, SIZE), "head": (VOCAB, SIZE)}, _language_model,
        ("repeat", "padding", "memory", "threads"),
    ),
    Model(
        "linear, logp", {"weight": (VOCAB, SIZE), "bias": (VOCAB,)}, _linear_layer,
        ("repeat", "chunk", "threads"),
    ),
    Model(
        "logp", {"logits": (sum(LENGTHS) + 1, VOCAB)}, _table,
        ("repeat", "padding", "chunk", "reorder", "threads"),
    ),
)  # fmt: skip


def cases(context: Context) -> Iterator[Case]:
    """For each model and dtype: every layout, and that the loss falls."""
    with context.stage("training", len(MODELS) * len(DTYPES)) as tick:
        for model in MODELS:
            for dtype in model.dtypes:
                tick(note=f"{model.operator}, {dtype}")
                yield from trained_in_layouts(model, dtype, context)


def trained_in_layouts(model: Model, dtype: str, context: Context) -> Iterator[Case]:
    """One model in one dtype."""
    labels = {"operator": model.operator, "dtype": dtype}
    expected, losses = train(model, dtype, packed(context), context)
    yield judged(
        losses[-1] < losses[0], f"the loss went from {losses[0]} to {losses[-1]}",
        case="the loss falls", method="packed", value=losses[-1] - losses[0], unit="change of the loss",
        **labels,
    )  # fmt: skip
    for method in METHODS:
        reason = "" if method in model.layouts else _SUMS
        if method == "memory" and reason:
            reason = "only linear_logp has a budget of memory"
        if method == "threads" and context.on_cuda:
            reason = "threads belong to the CPU"
        if reason:
            yield skipped(reason, case="parameters", method=method, **labels)
            continue
        with torch_threads(3 if method == "threads" else torch.get_num_threads()):
            actual, _ = train(model, dtype, laid_out(method, context), context)
        joined = [
            torch.cat([values[name].flatten() for name in model.shapes]) for values in (actual, expected)
        ]
        yield same_bits(*joined, case="parameters after 3 steps", method=method, **labels)


def train(model: Model, dtype: str, tokens: Tokens, context: Context) -> tuple[Parameters, list[float]]:
    """(parameters after the steps, losses before each and after the last)."""
    generator = torch.Generator().manual_seed(context.seed)
    parameters = {
        name: (torch.randn(shape, generator=generator) / 4).to(context.device, DTYPES[dtype]).requires_grad_()
        for name, shape in model.shapes.items()
    }
    optimizer = torch.optim.SGD(parameters.values(), lr=0.5, momentum=0.9)
    losses = []
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        logp = model.logp(parameters, tokens)
        losses.append(-float(logp.detach().double().sum()) / sum(LENGTHS))
        if step < STEPS:
            logp.backward(torch.full_like(logp, -1 / sum(LENGTHS)))
            optimizer.step()
    return {name: value.detach() for name, value in parameters.items()}, losses


def packed(context: Context) -> Tokens:
    """All tokens, one sequence after the other."""
    generator = torch.Generator().manual_seed(context.seed + 1)
    ids = torch.randint(0, VOCAB, (2, sum(LENGTHS)), generator=generator).to(context.device)
    return Tokens(ids[0], ids[1], torch.arange(sum(LENGTHS), device=context.device))


def laid_out(method: str, context: Context) -> Tokens:
    """The same tokens in another layout."""
    tokens = packed(context)
    if method == "chunk":
        return tokens._replace(parts=(1, 9, 15))
    if method == "memory":
        return tokens._replace(memory="recompute")
    if method == "reorder":
        order = tokens.places.flip(0).roll(2)
        return tokens._replace(
            inputs=tokens.inputs[order], targets=tokens.targets[order], places=tokens.places[order]
        )
    if method != "padding":
        return tokens
    longest = max(LENGTHS)
    at = torch.cat([torch.arange(n) + i * longest for i, n in enumerate(LENGTHS)]).to(context.device)
    room = len(LENGTHS) * longest

    def spread(ids: Tensor, fill: int) -> Tensor:
        return ids.new_full((room,), fill).index_copy(0, at, ids)

    padding = sum(LENGTHS)  # the row of logits that padding reads
    return Tokens(spread(tokens.inputs, -1), spread(tokens.targets, -100), spread(tokens.places, padding))
