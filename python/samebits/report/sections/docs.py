"""The documentation site, built strictly: a warning is an error."""

import tempfile
from collections.abc import Iterator
from importlib.util import find_spec

from samebits.report.case import Case
from samebits.report.context import Context, judged, skipped
from samebits.report.process import python

TITLE = "Documentation"
ABOUT = "mkdocs build --strict: every page, link and snippet; a warning is a failure."
NEEDED = ("mkdocs", "material", "mkdocstrings")  # modules of what requirements-dev.txt names


def cases(context: Context) -> Iterator[Case]:
    """One case."""
    labels = {"case": "strict build", "method": "mkdocs"}
    if context.root is None or not (context.root / "mkdocs.yml").is_file():
        yield skipped("mkdocs.yml is in the repository, and this is not run in a checkout", **labels)
        return
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        yield skipped(f"not installed: {', '.join(missing)}", **labels)
        return
    context.commands.append("python -m mkdocs build --strict")
    with context.stage("mkdocs", 1) as tick, tempfile.TemporaryDirectory() as folder:
        tick(note="strict build")
        # Not --quiet: strict counts the warnings that are logged, and then none is.
        command = ["-m", "mkdocs", "build", "--strict", "--site-dir", folder]
        ended = python(command, context.root, NO_MKDOCS_2_WARNING="1")
    yield judged(ended.status == 0, ended.words, **labels)
