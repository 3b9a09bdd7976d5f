"""Checks a report: every file against the manifest, every case against itself, every figure drawn again."""

from pathlib import Path
from typing import NamedTuple

from samebits.report import folder as files
from samebits.report import page
from samebits.report.case import Case, counted, from_csv
from samebits.report.errors import ReportError


class Verdict(NamedTuple):
    """What is wrong with a report, and what could not be judged here."""

    problems: list[str]
    unjudged: list[str]
    cases: list[Case]


def verify(folder: Path) -> Verdict:
    """Raises ReportError when there is no complete report."""
    if not folder.is_dir():
        raise ReportError(f"--verify {folder}: is no folder")
    if not (folder / files.MANIFEST).is_file():
        raise ReportError(f"--verify {folder}: has no {files.MANIFEST}, so it is not a complete report")
    problems = manifest_problems(folder)
    if problems:
        return Verdict(problems, [], [])
    try:
        run = files.read_json(folder / files.RUN)
        cases = from_csv((folder / files.CASES).read_text())
    except (OSError, ReportError) as error:
        return Verdict([str(error)], [], [])
    if not isinstance(run, dict):
        return Verdict([f"{files.RUN}: is no JSON object"], [], [])
    for case in cases:
        if problem := case.problem():
            problems.append(f"{files.CASES}: {case.section}, {case.case}: {problem}")
    if counted(cases) != run.get("counts"):
        problems.append(f"{files.RUN}: counts are {run.get('counts')}, the cases give {counted(cases)}")
    drawn, unjudged = figure_problems(folder, run, cases)
    return Verdict(problems + drawn, unjudged, cases)


def manifest_problems(folder: Path) -> list[str]:
    """Files that are missing, changed, or not of the report."""
    listed: dict[str, str] = {}
    for line in (folder / files.MANIFEST).read_text().splitlines():
        value, _, name = line.partition("  ")
        listed[name] = value
    present = set(files.files(folder))
    problems = [f"{name}: is missing" for name in listed if name not in present]
    problems += [f"{name}: is not in the manifest" for name in sorted(present - listed.keys())]
    return problems + [
        f"{name}: its SHA-256 is not the manifest's"
        for name, value in listed.items()
        if name in present and files.digest(folder / name) != value
    ]


def figure_problems(folder: Path, run: dict, cases: list[Case]) -> tuple[list[str], list[str]]:
    """Figures and page derived again from the cases: (what differs, what cannot be judged with what is
    installed)."""
    try:
        from samebits.report.figures import draw_all, drawn_with

        drawn, here = draw_all(cases), drawn_with()
    except ModuleNotFoundError as error:
        return [], [f"figures cannot be drawn again without {error.name}"]
    recorded = run.get("drawn_with")
    wanted = {f"{files.FIGURES}/{name}": content for name, content in drawn.items()}
    wanted[files.PAGE] = page.render(run, cases, drawn).encode()
    differing = [
        name for name, content in wanted.items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]  # fmt: skip
    if differing and recorded != here:
        others = f"{_versions(here)} draws other bits of {', '.join(differing)}"
        return [], [f"figures were drawn with {_versions(recorded)}; {others}"]
    return [f"{name}: is not what the cases give" for name in differing], []


def _versions(found: dict | None) -> str:
    return " ".join(f"{name} {version}" for name, version in (found or {}).items()) or "unknown versions"
