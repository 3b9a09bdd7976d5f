"""Runs the sections one after the other; each is kept as it finishes."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from samebits.report import context as contexts
from samebits.report import folder as files
from samebits.report import identity
from samebits.report.case import Case, from_row
from samebits.report.errors import ReportError
from samebits.report.sections import SECTIONS


def measure(folder: Path, options, progress) -> list[Case]:
    """The cases of every section; those that an interrupted run finished are read back."""
    cases: list[Case] = []
    for name in SECTIONS:
        kept = part(folder, name)
        if kept.exists():
            progress.section(f"{name} (kept)")
        else:
            progress.section(name)
            files.write_json(kept, run_section(name, options, progress))
        cases += [from_row(row) for row in kept_part(folder, name)["cases"]]
    return cases


def part(folder: Path, name: str) -> Path:
    """Where the finished section is kept until the report is complete."""
    return folder / files.PARTS / f"{name}.json"


def kept_part(folder: Path, name: str) -> dict[str, Any]:
    """The finished section read back; a ReportError when it is none, or says nothing."""
    path = part(folder, name)
    kept = files.read_json(path)
    kinds = {"seconds": int | float, "commands": list, "attachments": dict, "cases": list}
    try:
        if not isinstance(kept, dict) or not all(isinstance(kept.get(k), kind) for k, kind in kinds.items()):
            raise ReportError("is not the part of a report")
        if not kept["cases"]:
            raise ReportError("holds no case")
        for row in kept["cases"]:
            case = from_row(row)
            if case.section != name:
                raise ReportError(f"holds a case of section {case.section!r}")
            if problem := case.problem():
                raise ReportError(f"{case.case}: {problem}")
    except (ReportError, TypeError) as error:
        raise ReportError(f"{path}: {error}; remove it to measure the section again") from None
    return kept


def run_section(name: str, options, progress) -> dict[str, Any]:
    """Its cases, and the commands and seconds it took."""
    commands: list[str] = []
    attachments: dict[str, Any] = {}
    begun = time.monotonic()
    if name not in options.only:
        cases: Iterable[Case] = [contexts.skipped("not asked for: --only names other sections", case="all")]
    else:
        cases = SECTIONS[name].cases(
            contexts.Context(
                options.device,
                options.quick,
                options.seed,
                identity.checkout(),
                progress.stage,
                commands,
                attachments,
            )
        )
    rows = [case.row() for case in finished(name, options.device, cases)]
    return {
        "seconds": round(time.monotonic() - begun, 2),
        "commands": commands,
        "attachments": attachments,
        "cases": rows,
    }


def finished(name: str, device: str, cases: Iterable[Case]) -> Iterable[Case]:
    """The cases with section, device and seconds; an exception is a failed case of its own."""
    before, any_case = time.monotonic(), False
    try:
        for case in cases:
            now = time.monotonic()
            case = case._replace(
                section=name,
                device=case.device or device,
                reason=contexts.plain(case.reason),
                seconds=round(case.seconds or now - before, 4),
            )
            before = now
            if problem := case.problem():
                raise ReportError(f"section {name}, {case.case}: {problem}")
            any_case = True
            yield case
        if not any_case:
            yield Case(section=name, case="the section itself", device=device, reason="it gave no case")
    except ReportError:
        raise
    except Exception as error:
        reason = contexts.plain(f"the section stopped: {type(error).__name__}: {error}")
        yield Case(section=name, case="the section itself", device=device, reason=reason)
