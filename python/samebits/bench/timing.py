"""Timing in turns: contestants are called one after the other, again and again, and medians are compared.

What slows a machine for a while (other work, heat, a lower clock) then meets all of them alike.
"""

import ctypes
import signal
import statistics
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

Calls = dict[str, Callable[[], Any]]
COLD_BYTES = 1 << 30  # more than any cache holds
HOT_SIZE, HOT_TRIALS = 8192, 8  # of the products that keep a GPU hot, and how many are timed to count them


class Clock:
    """Seconds of calls on one device: by its own events on a GPU, else by the wall.

    A cold clock first reads a gigabyte, which empties the cache of what the last contestant left there. On a
    GPU this also keeps the device busy until the call is queued, so that the time of Python is not measured.

    A hot clock, of a GPU, has it compute large products for so many seconds ahead of each call. The clock
    that a chip's power allows follows what ran before, for longer than one call: without this a call is
    faster behind a contestant that waits for memory than behind one that does not. It empties caches too.
    """

    def __init__(self, device: torch.device, cold: bool, hot: float = 0.0) -> None:
        self.device = device
        self.cold = cold
        heats = hot > 0 and device.type == "cuda"
        self._other = torch.ones(COLD_BYTES // 4, device=device) if cold and not heats else None
        self._square, self._products = None, 0
        if heats:
            self._square = torch.randn(HOT_SIZE, HOT_SIZE, device=device).bfloat16()
            self._heat(1)
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            self._heat(HOT_TRIALS)
            last.record()
            self.wait()
            self._products = max(1, round(hot * HOT_TRIALS / (first.elapsed_time(last) * 1e-3)))

    def _heat(self, products: int) -> None:
        for _ in range(products):
            torch.mm(self._square, self._square)

    def wait(self) -> None:
        """Until the device is idle."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __call__(self, call: Callable[[], Any], repeat: int = 1) -> float:
        """Seconds of one call, the mean of `repeat` in a row."""
        self._heat(self._products)
        if self._other is not None:
            self._other.amax()
        if self.device.type != "cuda":
            begin = time.perf_counter()
            for _ in range(repeat):
                call()
            return (time.perf_counter() - begin) / repeat
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(repeat):
            call()
        last.record()
        self.wait()
        return first.elapsed_time(last) * 1e-3 / repeat


@contextmanager
def at_most(seconds: float | None):
    """Raises TimeoutError in the body when it takes longer; None: it may take any time.

    By a signal, so only in the main thread (elsewhere there is no limit), and only where Python is reached: a
    call of native code ends first.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_) -> None:
        raise TimeoutError(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again and again, should somebody swallow the error
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def warm_up(calls: Calls, clock: Clock, seconds: float) -> None:
    """Everybody in turn, at least once and for that long: a GPU slows down within a second of hard work."""
    begin, turns = time.monotonic(), 0
    while turns < 1 or time.monotonic() - begin < seconds:
        for call in calls.values():
            call()
        clock.wait()
        turns += 1


def interleaved(calls: Calls, clock: Clock, rounds: int, repeat: int = 1) -> dict[str, list[float]]:
    """`rounds` samples of each, in seconds; who goes first rotates."""
    names = list(calls)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        at = turn % max(1, len(names))
        for name in names[at:] + names[:at]:
            taken[name].append(clock(calls[name], repeat))
    return taken


def summary(samples: list[float]) -> dict[str, float]:
    """Median, quartiles and extremes."""
    lower, median, upper = (
        statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else samples * 3
    )
    return {
        "median": median,
        "lower_quartile": lower,
        "upper_quartile": upper,
        "best": min(samples),
        "worst": max(samples),
    }


def peak_bytes(call: Callable[[], Any], device: torch.device) -> int | None:
    """Bytes at the highest point of a call beyond what was there before: results, gradients and scratch.

    On a GPU what torch's allocator gave out. On a CPU the growth of the process's resident memory, or None
    where the system does not tell.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    try:
        ctypes.CDLL(None).malloc_trim(0)  # what is only kept for later would hide what the call asks for
        Path("/proc/self/clear_refs").write_text("5")  # sets the high-water mark back
        before = _resident("VmRSS")
        call()
        return max(0, _resident("VmHWM") - before)
    except (OSError, AttributeError, StopIteration):
        return None


def _resident(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field + ":")).split()[1])


def in_one_graph(calls: list[Callable[[], Any]]) -> Callable[[], Any]:
    """A CUDA graph of the calls, one after the other; calling it replays them all.

    Raises:
        RuntimeError: one of them does what no graph can hold, such as waiting for the device.
    """
    for call in calls:
        call()  # compiles, and fills caches
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph.replay
