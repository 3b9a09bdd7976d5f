"""Speed and memory of linear_logp, beside bare products, PyTorch's head and those of others."""

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

import samebits as sb
from samebits.bench import peers
from samebits.bench.cases import Case, Contestant
from samebits.bench.timing import Calls, in_one_graph, peak_bytes

from .head_ratios import over
from .timings import medians
from .turns import entered, take_turns

MOST_FP32_ROWS = 16384  # log_softmax in fp32 holds several times the logits
HOT = 1.0  # seconds: the chip lowers its clock within a second of such work, and all are timed hot
LEAD = 0.03  # seconds of products ahead of each call of many rows, so that none meets a chip that has rested
MEBIBYTE = 2**20
FORWARD_BYTES, BACKWARD_BYTES = 128 * MEBIBYTE, 256 * MEBIBYTE  # promised, whatever the number of tokens


class Shape(NamedTuple):
    """Of hidden [rows, size] and weight [vocab, size]."""

    rows: int
    size: int = 2688
    vocab: int = 131072


@dataclass(frozen=True)
class Setting:
    """How to measure: `limit` is in seconds, of a first call; `seconds` of turns come first."""

    device: str
    rounds: int
    without: Collection[str] = ()
    limit: float | None = None
    seconds: float = HOT


def _step(hidden: torch.Tensor, weight: torch.Tensor, values: Callable[[], torch.Tensor],
          upstream: torch.Tensor) -> Callable[[], None]:  # fmt: skip
    """Forward and backward; the gradients are dropped."""

    def run() -> None:
        try:
            result = values()
            result.backward(upstream.to(result.dtype) if result.dim() else None)  # QuACK gives the sum
        finally:  # one that fails leaves none for the next to add to
            hidden.grad = weight.grad = None

    return run


class Head:
    """One shape: tensors that all contestants share, and the calls."""

    def __init__(self, shape: Shape, device: str) -> None:
        rows, size, vocab = shape
        self.shape, self.device = shape, torch.device(device)
        self.hidden = torch.randn(rows, size, device=device).bfloat16().requires_grad_()
        self.weight = (torch.randn(vocab, size, device=device) * 0.02).bfloat16().requires_grad_()
        self.targets = torch.randint(vocab, (rows,), device=device)
        self.masked = self.targets.clone()
        self.masked[torch.randperm(rows, device=device)[: rows // 2]] = -100
        self.upstream = torch.randn(rows, device=device)
        self.x, self.w = self.hidden.detach(), self.weight.detach()

    @property
    def case(self) -> Case:
        """What others are asked about."""
        rows, size, vocab = self.shape
        return Case("linear_logp", "fwdbwd", rows, vocab, size, "bf16", str(self.device), 0, False)

    def step(self, values: Callable[..., torch.Tensor]) -> Callable[[], None]:
        """Of values(hidden, weight, targets)."""
        return _step(
            self.hidden,
            self.weight,
            lambda: values(self.hidden, self.weight, self.targets),
            self.upstream,
        )

    def ours(self, memory: str, masked: bool = False) -> Callable[[], None]:
        """A step of samebits."""
        ids = self.masked if masked else self.targets
        return self.step(lambda hidden, weight, _: sb.linear_logp(hidden, weight, ids, memory=memory))

    def torchs(self) -> dict[str, Callable[..., torch.Tensor]]:
        """PyTorch's heads, of (hidden, weight, targets)."""
        found: dict[str, Callable[..., torch.Tensor]] = {
            "PyTorch, F.cross_entropy in bf16": lambda x, w, ids: F.cross_entropy(
                x @ w.t(), ids, reduction="none"
            )
        }
        if self.shape.rows <= MOST_FP32_ROWS:
            found["PyTorch, log_softmax in fp32"] = lambda x, w, ids: peers.log_softmax_and_gather(
                x @ w.t(), ids
            )
        return found

    def forward_calls(self, others: dict[str, Callable], masked: bool, room: list[torch.Tensor]) -> Calls:
        """Without gradients."""
        x, w = self.x, self.w
        calls: Calls = {
            "bare product: logits": lambda: torch.mm(x, w.t(), out=room[0]),
            "samebits": lambda: sb.linear_logp(x, w, self.targets),
            "samebits, product: logits": lambda: sb.matmul(x, w.t(), contract="tc16"),
        }
        if masked:
            calls["samebits, half of the rows masked"] = lambda: sb.linear_logp(x, w, self.masked)
        for name, function in (self.torchs() | others).items():
            calls[name] = functools.partial(function, x, w, self.targets)
        return calls

    def bare_products(self, room: list[torch.Tensor]) -> Calls:
        """Those of a step, into buffers that exist already: each alone, and all of them in one call.

        A call of all keeps the chip at work as long as a step; one product alone may run at a higher clock.
        """
        x, w = self.x, self.w
        to_hidden, to_weight = torch.empty_like(x), torch.empty_like(w)
        alone: Calls = {
            "logits": lambda: torch.mm(x, w.t(), out=room[0]),
            "grad_hidden": lambda: torch.mm(room[0], w, out=to_hidden),
            "grad_weight": lambda: torch.mm(room[0].t(), x, out=to_weight),
        }
        three = tuple(alone.values())
        four = (alone["logits"], *three)
        return {
            **{f"bare product: {name}": product for name, product in alone.items()},
            "bare products: three in a row": lambda: [product() for product in three],
            "bare products: four in a row": lambda: [product() for product in four],
        }

    def step_calls(self, others: dict[str, Callable], masked: bool, room: list[torch.Tensor]) -> Calls:
        """Forward and backward."""
        calls = self.bare_products(room)
        for name, memory in (("recompute", "recompute"), ("saved P", "save")):
            calls[f"samebits, {name}"] = self.ours(memory)
            if masked:
                calls[f"samebits, {name}, half of the rows masked"] = self.ours(memory, masked=True)
        return calls | {name: self.step(function) for name, function in (self.torchs() | others).items()}

    def memory(self) -> dict[str, Any]:
        """Bytes of samebits beyond operands and gradients, and what is promised."""
        gradients = 2 * (self.x.numel() + self.w.numel())
        backward = peak_bytes(self.ours("recompute"), self.device)
        return {
            "forward_extra_bytes": peak_bytes(
                lambda: sb.linear_logp(self.x, self.w, self.targets), self.device
            ),
            "backward_extra_bytes": None if backward is None else backward - gradients,
            "forward_bytes_allowed": FORWARD_BYTES,
            "backward_bytes_allowed": BACKWARD_BYTES + 8 * self.x.numel(),
            "backward_extra_bytes_allowed_for_hidden": 8 * self.x.numel(),
        }


def differences(head: Head, contestants: list[Contestant]) -> dict[str, float]:
    """The largest difference of each forward from that of samebits; of sums, over the number of rows."""
    ours = sb.linear_logp(head.x, head.w, head.targets)
    found = {}
    for one in contestants:
        theirs = one.sign * one.make()(head.x, head.w, head.targets).double()
        apart = theirs / head.shape.rows - ours.double().mean() if one.summed else theirs - ours
        found[one.name] = float(apart.abs().max())
    return found


def timed(shape: Shape, setting: Setting, *, masked: bool = False, cold: bool = False, hot: float = 0.0,
          summed: bool = False, memory: bool = False) -> dict[str, Any]:  # fmt: skip
    """One shape: milliseconds of every contestant.

    Args:
        shape: of hidden and weight.
        setting: how to measure.
        masked: also with half of the rows masked.
        cold: each call after a read of a gigabyte, which hides the time of Python.
        hot: instead, each call after so many seconds of products.
        summed: against those who give the sum over the tokens alone, not those who give each.
        memory: also the bytes that samebits takes.
    """
    head = Head(shape, setting.device)
    wanted: tuple[Contestant, ...] = tuple(one for one in peers.OF_HEADS if one.summed == summed)
    found, absent = entered(wanted, head.case, setting.without)
    others = {one.name: one.make() for one in found}
    room = [torch.empty(shape.rows, shape.vocab, device=head.device, dtype=torch.bfloat16).normal_()]
    how = (setting.device, setting.rounds, setting.seconds, cold, setting.limit, hot)
    forward = take_turns(head.forward_calls(others, masked, room), *how)
    step = take_turns(head.step_calls(others, masked, room), *how)
    room.clear()
    return {
        **shape._asdict(),
        "forward_milliseconds": forward.milliseconds,
        "forward_and_backward_milliseconds": step.milliseconds,
        "samebits_over_others": over(forward.milliseconds, step.milliseconds),
        "versions": {one.name: peers.version(one.package) for one in found},
        "largest_difference_of_forward": differences(
            head, [one for one in found if one.name in forward.milliseconds]
        ),
        "first_call_seconds": {"forward": forward.first_call_seconds, "both": step.first_call_seconds},
        "not_run": absent
        | {f"{name}, forward": reason for name, reason in forward.not_run.items()}
        | {f"{name}, both": reason for name, reason in step.not_run.items()},
        **(head.memory() if memory else {}),
    }


def few(shape: Shape, setting: Setting) -> dict[str, Any]:
    """Decode: microseconds of one call inside a CUDA graph."""
    rows, size, vocab = shape
    device = setting.device
    hidden = torch.randn(rows, size, device=device).bfloat16()
    weight = (torch.randn(vocab, size, device=device) * 0.02).bfloat16()
    targets = torch.randint(vocab, (rows,), device=device)
    logits = torch.empty(rows, vocab, device=device, dtype=torch.bfloat16)
    calls = {
        "bare product": lambda: torch.mm(hidden, weight.t(), out=logits),
        "samebits": lambda: sb.linear_logp(hidden, weight, targets),
    }
    replays = {name: in_one_graph([call] * 4) for name, call in calls.items()}
    try:
        from samebits.bench.reader import Reader

        replays["pure read of weight"] = Reader(weight)
    except ImportError:
        print("  triton is not installed: no pure read in this table")
    times = medians(replays, device, setting.rounds)
    return {
        "rows": rows,
        "microseconds": {name: round(t * (1000 if "read" in name else 250), 1) for name, t in times.items()},
    }


def memory(shape: Shape, setting: Setting) -> dict[str, Any]:
    """Bytes alone."""
    return {**shape._asdict(), **Head(shape, setting.device).memory()}


class Group(NamedTuple):
    """Lines of one table: what is measured of each shape, and in how many rounds."""

    line: Callable[[Shape, Setting], dict[str, Any]]
    shapes: tuple[Shape, ...]
    rounds: int = 9


GROUPS = {
    "large": Group(
        functools.partial(timed, masked=True, memory=True, hot=LEAD),
        (Shape(2048), Shape(4096), Shape(8192), Shape(16384)),
    ),
    "few": Group(few, (Shape(1), Shape(8), Shape(64))),
    "small": Group(functools.partial(timed, hot=LEAD), tuple(map(Shape, (64, 128, 256, 512))), 15),
    "shapes": Group(
        functools.partial(timed, hot=LEAD),
        (Shape(8192, 4096, 151936), Shape(8192, 7168, 129280)),
        7,
    ),
    "memory": Group(memory, (Shape(65536),)),
    "sums": Group(
        functools.partial(timed, summed=True, hot=LEAD), (Shape(8192), Shape(16384), Shape(2048)), 7
    ),
}
OTHERS = [one.name for one in peers.OF_HEADS if one.package in peers.DISTRIBUTIONS]
QUICK_ROWS, QUICK_VOCAB, QUICK_ROUNDS = 256, 8192, 3


def problems(tables: dict[str, Any]) -> list[str]:
    """Where more memory was taken than is promised."""
    found = []
    for line in (line for name in GROUPS for line in tables.get(name, ())):
        for which in ("forward", "backward"):
            taken, allowed = line.get(f"{which}_extra_bytes"), line.get(f"{which}_bytes_allowed")
            if taken is not None and allowed is not None and taken > allowed:
                found.append(
                    f"linear_logp, {which} of {line['rows']} rows: {taken} bytes, {allowed} are promised"
                )
    return found


def shape_of(line: dict[str, Any]) -> Shape:
    """The shape that a line is of; `few` names its rows alone."""
    return Shape(**{key: line[key] for key in Shape._fields if key in line})


def _keep(tables: dict[str, Any], name: str, lines: dict[Shape, dict], shapes: Collection[Shape]) -> None:
    """The lines in the order of the group, and the first that is missing."""
    tables[name] = [lines[shape] for shape in shapes if shape in lines]
    tables["unfinished"].pop(name, None)
    if missing := next((shape for shape in shapes if shape not in lines), None):
        tables["unfinished"][name] = "{} x {} x {}".format(*missing)


def record(
    device: str,
    quick: bool,
    groups: Collection[str] = tuple(GROUPS),
    without: Collection[str] = (),
    limit: float | None = None,
    write: Callable[[dict[str, Any]], None] = lambda tables: None,
    tables: dict[str, Any] | None = None,
    rows: Collection[int] | None = None,
) -> dict[str, Any]:
    """The groups, added to `tables`, which `write` is given after each line. `quick` shrinks the shapes.

    With `rows`, shapes of so many rows alone; the other lines of a group stay. "unfinished" names the first
    line that a group lacks: where the process was ended, the one that was being measured.
    """
    tables = {} if tables is None else tables
    tables.setdefault("unfinished", {})
    for name in groups:
        group = GROUPS[name]
        shapes = group.shapes
        if quick:
            shapes = tuple(dict.fromkeys(Shape(min(s.rows, QUICK_ROWS), s.size, QUICK_VOCAB) for s in shapes))
        wanted = [shape for shape in shapes if rows is None or shape.rows in rows]
        lines = {of: line for line in tables.get(name, ()) if (of := shape_of(line)) not in wanted}
        setting = Setting(device, QUICK_ROUNDS if quick else group.rounds, without, limit)
        for shape in wanted:
            _keep(tables, name, lines, shapes)
            write(tables)
            print("  head, {}: {} x {} x {}".format(name, *shape), flush=True)
            lines[shape] = group.line(shape, setting)
            if torch.device(device).type == "cuda":
                torch.cuda.empty_cache()
        if wanted:
            _keep(tables, name, lines, shapes)
            write(tables)
    return tables
