"""Progress bars, one for each stage."""

from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Stages:
    """`with Stages(console) as stages: with stages.stage("name", total) as tick: tick()`."""

    def __init__(self, console: Console):
        columns = (
            TextColumn("{task.description:<26}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
        )
        self.progress = Progress(*columns, console=console)

    def __enter__(self):
        return self  # the bars start with the first stage: what is loaded before may show bars of its own

    def __exit__(self, *error):
        self.progress.stop()

    def say(self, words: str) -> None:
        self.progress.console.print(words, markup=False)

    @contextmanager
    def stage(self, name: str, total: int | None):
        """`tick(steps=1, note=None)` advances the bar; `total` None means that the length is not known."""
        self.progress.start()
        task = self.progress.add_task(name, total=total, note="")
        done = 0

        def tick(steps: int = 1, note: str | None = None):
            nonlocal done
            done += steps
            self.progress.update(task, completed=done, note=note if note is not None else f"{done:,}")

        yield tick
        self.progress.update(task, total=max(done, 1), completed=max(done, 1))
