"""One case: who takes part, checked against samebits; timed in turns; then measured for memory."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .cases import Case, Ceilings, Contestant, Inputs, require_room
from .errors import BenchError
from .operators import COPIES, OPERATORS, Operator
from .peers import one_line
from .timing import Clock, at_most, in_one_graph, interleaved, peak_bytes, summary, warm_up

# Of the largest value. Every rounding of bf16 logits and probabilities is far below, a fault far above.
AGREEMENT = 0.05
FEWEST, MOST = 5, 300  # rounds that `seconds` may turn into
SHORTEST_SAMPLE = 2e-4  # seconds; on a CPU short calls are repeated until a sample lasts that long


@dataclass(frozen=True)
class Effort:
    """`warm_up` seconds of turns, then `rounds` of them or as many as fit into `seconds`.

    `patience` is how many seconds the first call of a package other than samebits may take, which compiles
    and tunes its kernels; whoever takes longer is left out with that reason. None: any time.
    """

    seconds: float
    warm_up: float
    rounds: int | None = None
    patience: float | None = None


class Entrant:
    """A contestant at work on a case."""

    def __init__(self, contestant: Contestant, case: Case, inputs: list[Inputs]) -> None:
        self.contestant = contestant
        function = contestant.make()
        self.calls = [_call(contestant, function, case, own) for own in inputs]
        self.first: Any = self.calls[0]()
        self.difference = 0.0  # from samebits
        self.run = self.calls[0] if len(inputs) == 1 else _in_a_row(self.calls, case)


def _call(contestant: Contestant, function: Callable, case: Case, inputs: Inputs) -> Callable[[], Any]:
    ids = () if inputs.ids is None else (inputs.ids,)
    operands = tuple(x.clone() if contestant.overwrites else x for x in inputs.operands)
    if not case.backward:

        def forward() -> Tensor:
            with torch.no_grad():
                return function(*operands, *ids)

        return forward

    leaves = tuple(x.detach().requires_grad_() for x in operands)

    def gradients(values: Tensor, keep: bool) -> tuple[Tensor, ...]:
        upstream = None if contestant.summed else inputs.upstream.to(values.dtype)
        return torch.autograd.grad(values, leaves, upstream, retain_graph=keep)

    if case.mode == "fwdbwd":
        return lambda: gradients(function(*leaves, *ids), False)
    values = function(*leaves, *ids)
    return lambda: gradients(values, True)


def _in_a_row(calls: list[Callable[[], Any]], case: Case) -> Callable[[], Any]:
    if case.torch_device.type == "cuda":
        return in_one_graph(calls)

    def run() -> None:
        for call in calls:
            call()

    return run


def difference(result: Any, ours: Any, contestant: Contestant) -> float:
    """The largest difference over the largest value of ours; infinite where there is a NaN."""
    worst = 0.0
    for theirs, mine in zip(_tensors(result), _tensors(ours), strict=True):
        if theirs.shape != mine.shape:
            mine = mine.sum(dtype=torch.float64)
        largest = mine.abs().max()
        apart = (contestant.sign * theirs - mine).abs().max()
        share = float(apart / largest if largest > 0 else apart)
        worst = max(worst, share) if share == share else float("inf")
    return worst


def _tensors(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _enter(
    operator: Operator, case: Case, inputs: list[Inputs], wanted: list[str] | None, patience: float | None
):
    """Who takes part, and who does not, with the reason."""
    entrants: list[Entrant] = []
    absent: list[dict[str, str]] = []
    for contestant in operator.contestants:
        if contestant.on_request and not (wanted and contestant.name in wanted):
            continue
        if wanted and contestant.name not in wanted and contestant.name != "samebits":
            continue
        reason, entrant = contestant.refusal(case), None
        if not reason:
            try:
                with at_most(None if contestant.package == "samebits" else patience):
                    entrant = Entrant(contestant, case, inputs)
            except TimeoutError as error:
                reason = f"its first call {error}"
            except Exception as error:  # theirs may fail in any way; ours is expected to run
                reason = one_line(error)
        if reason and contestant.name == "samebits":
            raise BenchError(f"{case.title}: samebits does not run: {reason}")
        if entrant is not None and entrants:
            entrant.difference = difference(entrant.first, entrants[0].first, contestant)
            entrant.first = None
            if entrant.difference > AGREEMENT:
                reason = f"gives something else: {entrant.difference:.2g} of the largest value off"
        if reason:
            absent.append({"name": contestant.name, "reason": reason})
        else:
            entrants.append(entrant)
        if case.torch_device.type == "cuda":
            torch.cuda.empty_cache()  # what a contestant that ran out of memory leaves is for the next
    entrants[0].first = None
    return entrants, absent


def _bounds(operator: Operator, case: Case, inputs: list[Inputs]) -> dict[str, Callable[[], Any]]:
    """The ceilings' calls, one for each alternative."""
    each: list[Ceilings] = [operator.ceilings(case, own) for own in inputs]
    return {
        f"{name}/{number}": one[0] if len(one) == 1 else _in_a_row(one, case)
        for name, alternatives in each[0].items()
        for number, one in enumerate(
            [[copy[name][number] for copy in each] for number in range(len(alternatives))]
        )
    }


def measure(case: Case, effort: Effort, wanted: list[str] | None = None) -> dict[str, Any]:
    """One entry of "cases" in the JSON; `wanted` are names of contestants, None is all but those on request.

    Raises:
        BenchError: the case does not fit into memory, or samebits does not run it.
    """
    operator = OPERATORS[case.op]
    copies = COPIES if case.mode == "decode" else 1
    require_room(case, copies * operator.storage(case) * case.torch_dtype.itemsize)
    inputs = [operator.inputs(case, 0, None)]
    inputs += [operator.inputs(case, copy, inputs[0]) for copy in range(1, copies)]
    entrants, absent = _enter(operator, case, inputs, wanted, effort.patience)
    calls = {e.contestant.name: e.run for e in entrants}
    bounds = _bounds(operator, case, inputs)
    clock = Clock(case.torch_device, case.cold)
    rounds, repeat = _pace(calls | bounds, clock, effort)
    samples = interleaved(calls | bounds, clock, rounds, repeat)
    del bounds, clock
    seconds = {name: summary([taken / copies for taken in each]) for name, each in samples.items()}
    memory = {e.contestant.name: peak_bytes(e.calls[0], case.torch_device) for e in entrants}
    return {
        "op": case.op,
        "mode": case.mode,
        "tokens": case.tokens,
        "vocab": case.vocab,
        "hidden": case.hidden,
        "dtype": case.dtype,
        "device": case.device,
        "threads": case.threads,
        "cache": "cold" if case.cold else "warm",
        "inputs_in_a_row": copies,
        "rounds": rounds,
        "calls_a_sample": repeat * copies,
        "work": operator.work(case),
        "unit": operator.unit,
        **_judged(operator, case, entrants, seconds, memory),
        "not_run": absent,
    }


def _pace(calls: dict[str, Callable[[], Any]], clock: Clock, effort: Effort) -> tuple[int, int]:
    """Warms up; then how many rounds, and how many calls in a row make one sample."""
    warm_up(calls, clock, effort.warm_up)
    taken = {name: min(each) for name, each in interleaved(calls, clock, 1).items()}
    repeat = 1
    if clock.device.type != "cuda" and not clock.cold:
        repeat = max(1, min(100, int(SHORTEST_SAMPLE / min(taken.values()))))
    turn = sum(taken.values()) * repeat
    return effort.rounds or max(FEWEST, min(MOST, int(effort.seconds / turn))), repeat


def _judged(operator, case, entrants, seconds, memory) -> dict[str, Any]:
    """Ceilings, every contestant beside the fastest, samebits and its own ceiling, and the price."""
    ceilings: dict[str, dict[str, float]] = {}
    for name, entry in seconds.items():
        bound, slash, _ = name.rpartition("/")
        if slash and entry["median"] < ceilings.get(bound, {"median": float("inf")})["median"]:
            ceilings[bound] = entry
    medians = {e.contestant.name: seconds[e.contestant.name]["median"] for e in entrants}
    listed = []
    for entrant in entrants:
        one = entrant.contestant
        least = (one.least or operator.least)(case)
        bound = sum(ceilings[name]["median"] * count for name, count in least.items())
        time = medians[one.name]
        listed.append(
            {
                "name": one.name,
                "reproducible": one.reproducible,
                "seconds": seconds[one.name],
                "rate": operator.work(case) / time if operator.unit else None,
                "times_the_fastest": time / min(medians.values()),
                "times_samebits": time / medians["samebits"],
                "ceiling": least,
                "ceiling_seconds": bound or None,
                "share_of_ceiling": bound / time if bound else None,
                "peak_bytes": memory[one.name],
                "difference_from_samebits": entrant.difference,
                "note": one.note,
            }
        )
    return {"ceilings": ceilings, "contestants": listed, "price_of_determinism": price(listed)}


def price(contestants: list[dict[str, Any]]) -> dict[str, Any]:
    """What reproducible bits cost: the fastest that has them against the fastest that does not promise them,
    and against its own ceiling; above 1 they cost time."""
    ours = min((c for c in contestants if c["reproducible"]), key=lambda c: c["seconds"]["median"])
    others = [c for c in contestants if not c["reproducible"]]
    other = min(others, key=lambda c: c["seconds"]["median"]) if others else None
    share = ours["share_of_ceiling"]
    return {
        "reproducible": ours["name"],
        "other": other["name"] if other else None,
        "times_the_other": ours["seconds"]["median"] / other["seconds"]["median"] if other else None,
        "times_the_ceiling": 1 / share if share else None,
    }
