"""Checks a report: every file against the manifest, every case against itself, every figure drawn again."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from samebits.report import folder as files
from samebits.report import page
from samebits.report.case import Case, counted, from_csv
from samebits.report.errors import ReportError

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")  # of the manifest


@dataclass
class Verdict:
    """What is wrong with a report, what could not be judged here, and how some of it was judged."""

    problems: list[str] = field(default_factory=list)
    unjudged: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)


def verify(folder: Path) -> Verdict:
    """Raises ReportError when there is no complete report."""
    if not folder.is_dir():
        raise ReportError(f"--verify {folder}: is no folder")
    if not (folder / files.MANIFEST).is_file():
        raise ReportError(f"--verify {folder}: has no {files.MANIFEST}, so it is not a complete report")
    try:
        if problems := manifest_problems(folder):
            return Verdict(problems)
        run = files.read_json(folder / files.RUN)
        cases = from_csv(files.read_text(folder / files.CASES))
    except (OSError, ReportError) as error:
        return Verdict([str(error)])
    if not isinstance(run, dict):
        return Verdict([f"{files.RUN}: is no JSON object"])
    for case in cases:
        if problem := case.problem():
            problems.append(f"{files.CASES}: {case.section}, {case.case}: {problem}")
    if counted(cases) != run.get("counts"):
        problems.append(f"{files.RUN}: counts are {run.get('counts')}, the cases give {counted(cases)}")
    problems += section_problems(run, cases)
    drawings = judge_drawings(folder, run, cases)
    return Verdict(problems + drawings.problems, drawings.unjudged, drawings.remarks, cases)


def manifest_problems(folder: Path) -> list[str]:
    """Files that are missing, changed, or not of the report."""
    listed: dict[str, str] = {}
    for number, line in enumerate(files.read_text(folder / files.MANIFEST).splitlines(), 1):
        if not (found := _LINE.fullmatch(line)):
            return [f"{files.MANIFEST}: line {number} is no SHA-256 with the name of a file"]
        listed[found[2]] = found[1]
    present = set(files.files(folder))
    problems = [f"{name}: is missing" for name in listed if name not in present]
    problems += [f"{name}: is not in the manifest" for name in sorted(present - listed.keys())]
    return problems + [
        f"{name}: its SHA-256 is not the manifest's"
        for name, value in listed.items()
        if name in present and files.digest(folder / name) != value
    ]


def section_problems(run: dict, cases: list[Case]) -> list[str]:
    """Sections that were reported without a case, and cases of sections that were not."""
    sections = run.get("sections")
    named = set(sections) if isinstance(sections, dict) else set()
    found = {case.section for case in cases}
    return [
        *(f"{files.CASES}: has no case of section {name}" for name in sorted(named - found)),
        *(f"{files.RUN}: names no section {name}, which has cases" for name in sorted(found - named)),
    ]


def judge_drawings(folder: Path, run: dict, cases: list[Case]) -> Verdict:
    """Figures and page derived again from the cases. Where other versions draw other bytes, what the figures
    show is compared."""
    try:
        from samebits.report.figures import draw_all, drawn_with
        from samebits.report.figures.shown import OTHER_PIXELS, difference

        drawn, here = draw_all(cases), drawn_with()
    except ModuleNotFoundError as error:
        return Verdict(unjudged=[f"figures cannot be drawn again without {error.name}"])
    recorded = run.get("drawn_with")
    recorded = recorded if isinstance(recorded, dict) else {}
    verdict = Verdict()
    alike, pictures = [], []
    kept = {name: _content(folder / files.FIGURES / name) for name in drawn}
    for name, content in kept.items():
        if name.endswith(".svg") and content is not None and not _is_text(content):
            verdict.problems.append(f"{files.FIGURES}/{name}: is no drawing, for it is no text")
    if verdict.problems:
        return verdict

    def same_drawing(name: str) -> bool:
        return not difference(name, kept[name] or b"", drawn[name])

    for name, content in drawn.items():
        before, path = kept[name], f"{files.FIGURES}/{name}"
        if before == content:
            continue
        if before is None or recorded == here:
            verdict.problems.append(f"{path}: is not what the cases give")
        elif not (found := difference(name, before, content)):
            alike.append(path)
        elif found == OTHER_PIXELS and same_drawing(name.replace(".png", ".svg")):
            pictures.append(path)
        else:
            verdict.unjudged.append(f"{path} {found}")
    shown = {name: drawn[name] if content is None else content for name, content in kept.items()}
    _judge_page(folder, run, cases, shown, recorded.get("drawing") == here["drawing"], verdict)
    if alike or pictures or verdict.unjudged:
        verdict.remarks.append(
            f"figures were drawn with {_versions(recorded)}, and here with {_versions(here)}"
        )
    if alike:
        verdict.remarks.append(f"other bytes that show the same: {', '.join(alike)}")
    if pictures:
        verdict.remarks.append(f"other pixels, of drawings that show the same: {', '.join(pictures)}")
    return verdict


def _judge_page(folder, run, cases, shown, same_code, verdict) -> None:
    """The page is made of the cases and the figures that lie beside it, whoever drew those."""
    try:
        wanted = page.render(run, cases, shown).encode()
    except (AttributeError, KeyError, TypeError) as error:
        verdict.problems.append(f"{files.RUN}: is not that of a report ({type(error).__name__}: {error})")
        return
    if _content(folder / files.PAGE) == wanted:
        return
    if same_code:
        verdict.problems.append(f"{files.PAGE}: is not what the cases give")
    else:
        verdict.unjudged.append(f"{files.PAGE} was written by another version of samebits.report")


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


def _is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _versions(found: dict) -> str:
    return " ".join(f"{name} {version}" for name, version in found.items()) or "unknown versions"
