"""Progress: bars where rich is installed and a person watches, plain lines elsewhere."""

import sys
import time
from contextlib import contextmanager

_EVERY = 15.0  # seconds between plain lines of one section


def progress(total: int):
    """A context manager for a report of `total` sections, with `section(title)`, `stage(name, total)` and
    `say(words)`."""
    try:
        import rich  # noqa: F401
    except ModuleNotFoundError:
        return Lines(total)
    return Bars(total) if sys.stderr.isatty() else Lines(total)


class Lines:
    """A line for each section, and one now and then while it runs."""

    def __init__(self, total: int):
        self.total, self.at, self.title, self.spoke = total, 0, "", 0.0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def say(self, words: str) -> None:
        """Words for a person."""
        print(words, file=sys.stderr, flush=True)

    def section(self, title: str) -> None:
        """The next section begins."""
        self.at, self.title, self.spoke = self.at + 1, title, time.monotonic()
        self.say(f"[{self.at}/{self.total}] {title}")

    @contextmanager
    def stage(self, name: str, total: int | None):
        """`tick(steps=1, note=None)` for each step of a section's stage."""
        done = 0

        def tick(steps: int = 1, note: str | None = None) -> None:
            nonlocal done
            done += steps
            if time.monotonic() - self.spoke >= _EVERY:
                self.spoke = time.monotonic()
                of = f"/{total}" if total else ""
                self.say(f"[{self.at}/{self.total}] {self.title}: {name} {done}{of} {note or ''}".rstrip())

        yield tick


class Bars:
    """One bar for the report and one for what its section is doing."""

    def __init__(self, total: int):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.bars = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
            console=Console(stderr=True),
        )
        self.whole = self.bars.add_task("report", total=total, note="")
        self.begun = 0

    def __enter__(self):
        self.bars.start()
        return self

    def __exit__(self, *error):
        self.bars.stop()

    def say(self, words: str) -> None:
        """Words for a person."""
        self.bars.console.print(words, markup=False, highlight=False)

    def section(self, title: str) -> None:
        """The next section begins."""
        self.bars.update(self.whole, completed=self.begun, note=title)
        self.begun += 1

    @contextmanager
    def stage(self, name: str, total: int | None):
        """`tick(steps=1, note=None)` for each step of a section's stage."""
        task = self.bars.add_task(f"  {name}", total=total, note="")

        def tick(steps: int = 1, note: str | None = None) -> None:
            self.bars.update(task, advance=steps, **({} if note is None else {"note": note}))

        try:
            yield tick
        finally:
            self.bars.remove_task(task)
