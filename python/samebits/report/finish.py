"""From measured cases to a complete report: table, figures, page, manifest."""

import shutil
from datetime import datetime, timezone
from pathlib import Path

from samebits.report import folder as files
from samebits.report import page, runner
from samebits.report.case import Case, counted, from_csv, to_csv
from samebits.report.errors import ReportError
from samebits.report.sections import SECTIONS


def now() -> str:
    """UTC, to the second."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def keep_cases(folder: Path, cases: list[Case]) -> None:
    """All cases in one table, and what the sections say of themselves in run.json; the parts are then
    superfluous."""
    run = files.read_json(folder / files.RUN)
    parts = {name: runner.kept_part(folder, name) for name in SECTIONS}
    for part in parts.values():
        for name, data in part["attachments"].items():
            files.write_json(folder / files.DATA / f"{name}.json", data)
    run["sections"] = {
        name: {"title": SECTIONS[name].TITLE, "about": SECTIONS[name].ABOUT,
               "seconds": part["seconds"], "commands": part["commands"]}
        for name, part in parts.items()
    }  # fmt: skip
    run["seconds"] = round(sum(part["seconds"] for part in parts.values()), 1)
    run["finished"] = now()
    run["counts"] = counted(cases)
    files.write_json(folder / files.RUN, run)
    files.write(folder / files.CASES, to_csv(cases))
    shutil.rmtree(folder / files.PARTS)


def close(folder: Path) -> list[Case]:
    """Draw the figures, write the page and, last, the manifest; from then on nothing changes."""
    if not (folder / files.CASES).exists():
        raise ReportError(f"{folder}: has no {files.CASES}: not every section has been measured")
    try:
        from samebits.report.figures import draw_all, drawn_with

        versions = drawn_with()
    except ModuleNotFoundError as error:
        raise ReportError(
            f"figures need the package {error.name}: pip install matplotlib, then --finish {folder}; "
            "what was measured is kept"
        ) from None
    cases = from_csv(files.read_text(folder / files.CASES))
    run = files.read_json(folder / files.RUN)
    run["drawn_with"] = versions
    files.write_json(folder / files.RUN, run)
    drawn = draw_all(cases)
    for name, content in drawn.items():
        files.write(folder / files.FIGURES / name, content)
    files.write(folder / files.PAGE, page.render(run, cases, drawn))
    shutil.rmtree(folder / files.PARTS, ignore_errors=True)  # killed between the table and here
    for partial in folder.rglob(f"*{files.UNFINISHED}"):
        partial.unlink()
    files.write(folder / files.MANIFEST, files.manifest(folder))
    return cases
