"""Contestants in turn: who takes part, seconds of a first call, medians; who does not, and why."""

import contextlib
import signal
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import torch

from samebits.bench import peers
from samebits.bench.cases import Case, Contestant
from samebits.bench.timing import Calls, Clock, interleaved, summary, warm_up


@dataclass
class Taken:
    """What came of some calls, by name: each is in `milliseconds` or in `not_run`."""

    milliseconds: dict[str, float] = field(default_factory=dict)  # medians
    first_call_seconds: dict[str, float] = field(default_factory=dict)  # compiling and tuning included
    not_run: dict[str, str] = field(default_factory=dict)  # reasons


class TooLong(BaseException):
    """Not an Exception: a tuner that tries one kernel after the other takes those for a kernel that fails."""


@contextlib.contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raises TooLong in the block when Python runs again after so many seconds; None is no limit."""
    if seconds is None:
        yield
        return

    def late(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def take_turns(
    calls: Calls,
    device: str,
    rounds: int,
    seconds: float = 0.0,
    cold: bool = False,
    limit: float | None = None,
    hot: float = 0.0,
) -> Taken:
    """Medians after so many seconds of turns, by a Clock that is `cold` or `hot`. One whose first call fails,
    or takes more seconds than `limit`, is left out; the reason is printed and kept."""
    clock, taken, running = Clock(torch.device(device), cold, hot), Taken(), {}
    for name, call in calls.items():
        begin = time.monotonic()
        try:
            with within(limit):
                call()
                clock.wait()
            running[name] = call
            taken.first_call_seconds[name] = round(time.monotonic() - begin, 2)
        except TooLong:
            taken.not_run[name] = f"its first call takes more than {limit:g} s"
        except Exception as error:  # others may fail in any way
            taken.not_run[name] = peers.one_line(error)
        if name in taken.not_run:
            print(f"  {name} does not run here: {taken.not_run[name]}", flush=True)
    warm_up(running, clock, seconds)
    samples = interleaved(running, clock, rounds)
    taken.milliseconds = {name: round(1e3 * summary(each)["median"], 4) for name, each in samples.items()}
    return taken


def entered(
    contestants: tuple[Contestant, ...], case: Case, without: Collection[str] = ()
) -> tuple[list[Contestant], dict[str, str]]:
    """Those of other packages that can do the case; and why not, by name, of the others."""
    found, absent = [], {}
    for one in contestants:
        if one.package not in peers.DISTRIBUTIONS:
            continue
        reason = "left out (--without)" if one.name in without else peers.unavailable(one)
        if reason := reason or one.refusal(case):
            absent[one.name] = reason
            print(f"  {one.name} does not run here: {reason}", flush=True)
        else:
            found.append(one)
    return found, absent
