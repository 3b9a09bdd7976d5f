"""Sections in processes of their own, several at a time; `python -m samebits.report.apart` is one of them.

A section that takes its process down is a failed section, and the others go on.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from argparse import Namespace
from pathlib import Path

from samebits.report import context as contexts
from samebits.report import folder as files
from samebits.report import runner
from samebits.report.case import Case
from samebits.report.progress import Lines
from samebits.report.sections import ALONE

_POLL = 0.2  # seconds


def measure(folder: Path, options: Namespace, jobs: int, progress) -> None:
    """Write the part of every section that has none and may run beside others."""
    pending = [name for name in options.only if name not in ALONE and not runner.part(folder, name).exists()]
    running: dict[str, tuple[subprocess.Popen, float]] = {}
    try:
        with progress.stage("sections", len(pending)) as tick, tempfile.TemporaryDirectory() as logs:
            while pending or running:
                while pending and len(running) < jobs:
                    name = pending.pop(0)
                    running[name] = start(folder, name, jobs, Path(logs)), time.monotonic()
                    tick(0, note=", ".join(running))
                time.sleep(_POLL)
                for name in [name for name, (process, _) in running.items() if process.poll() is not None]:
                    process, begun = running.pop(name)
                    ended(folder, name, process.returncode, begun, options, Path(logs))
                    progress.say(f"{name}: {time.monotonic() - begun:.0f} s")
                    tick(note=", ".join(running))
    finally:
        for process, _ in running.values():
            process.kill()


def start(folder: Path, name: str, jobs: int, logs: Path) -> subprocess.Popen:
    """A process for one section. It ends when its standard input does, so it does not outlive this one."""
    threads = max(1, len(os.sched_getaffinity(0)) // jobs)
    with open(logs / name, "wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "samebits.report.apart", str(folder), name],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={"OMP_NUM_THREADS": str(threads), **os.environ},
        )


def ended(folder: Path, name: str, status: int, begun: float, options: Namespace, logs: Path) -> None:
    """Where a process ended without its part, a part that says so."""
    if runner.part(folder, name).exists():
        return
    words = (logs / name).read_text(errors="replace").strip().splitlines()
    reason = contexts.plain(f"its process ended with status {status}: {words[-1] if words else ''}")
    failure = Case(section=name, case="the section itself", device=options.device, reason=reason)
    files.write_json(
        runner.part(folder, name),
        {
            "seconds": round(time.monotonic() - begun, 2),
            "commands": [],
            "attachments": {},
            "cases": [failure.row()],
        },
    )


def main(folder: Path, name: str) -> None:
    """One section, as run.json asks for it."""

    def follow() -> None:
        sys.stdin.read()
        os._exit(1)  # the report that asked for this is gone

    threading.Thread(target=follow, daemon=True).start()
    about = files.read_json(folder / files.RUN)["identity"]
    options = Namespace(**about["options"], device=about["machine"]["device"])
    files.write_json(runner.part(folder, name), runner.run_section(name, options, Lines(1)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
