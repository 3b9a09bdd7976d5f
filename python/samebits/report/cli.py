"""`python -m samebits.report`: makes, finishes and verifies reports."""

import argparse
import shlex
import sys
from pathlib import Path

from samebits.check.cli import require_device
from samebits.check.errors import CheckError
from samebits.report import apart, finish, identity, runner, verify
from samebits.report import folder as files
from samebits.report.case import FAILED, PASSED, SKIPPED, Case, counted
from samebits.report.errors import ReportError
from samebits.report.progress import progress
from samebits.report.sections import SECTIONS

_EPILOG = """\
examples:
  python -m samebits.report --out acceptance
  python -m samebits.report --out acceptance-cuda --device cuda
  python -m samebits.report --verify acceptance

An interrupted report is taken up where it stopped by the same command; a complete one is never altered.
Exit status: 0 nothing failed, 1 a case failed or the report is not what it says, 2 could not run.
"""


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options; argparse exits with status 2 on bad ones."""
    parser = argparse.ArgumentParser(
        prog="python -m samebits.report",
        description="Runs the acceptance of samebits on this machine and writes one report of it.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR", help="make a report in this new folder")
    what.add_argument("--verify", type=Path, metavar="DIR", help="check the report in this folder")
    what.add_argument(
        "--finish", type=Path, metavar="DIR", help="draw and close a report made with --measure-only"
    )
    what.add_argument("--list", action="store_true", help="the sections, and what each shows")
    parser.add_argument("--device", default="cpu", help="where to compute, as torch names it (default cpu)")
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, default=list(SECTIONS), metavar="SECTION",
        help=f"sections to run (default all): {', '.join(SECTIONS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="small cases, to see that it works")
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N",
        help="sections at a time, each in a process of its own; the benchmark runs alone (default 1)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="of the inputs, 0 to 2^62 (default 0)")
    parser.add_argument(
        "--measure-only", action="store_true",
        help="stop before the figures, for a machine without matplotlib; --finish draws them elsewhere",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    if not 0 <= options.seed <= 2**62:
        parser.error(f"argument --seed: is {options.seed}; may be 0 to 2^62")
    if options.jobs < 1:
        parser.error(f"argument --jobs: is {options.jobs}; must be 1 or more")
    return options


def main(arguments: list[str] | None = None) -> int:
    """The exit status."""
    options = parse(arguments)
    try:
        if options.list:
            return list_sections()
        if options.verify:
            return report_verdict(options.verify)
        if options.finish:
            with files.held(existing(options.finish)):
                return conclude(options.finish, finish.close(options.finish))
        require_device(options.device)
        with files.held(files.made(options.out)):
            return make(options, sys.argv[1:] if arguments is None else arguments)
    except (ReportError, CheckError) as error:
        print(f"samebits.report: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # a full disk, a folder that may not be written
        print(f"samebits.report: the report could not be written: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("samebits.report: interrupted; the same command takes it up again", file=sys.stderr)
        return 130


def list_sections() -> int:
    """Names and what they show."""
    for name, module in SECTIONS.items():
        print(f"{name:<12} {module.ABOUT}")
    return 0


def existing(folder: Path) -> Path:
    """A folder that holds a report which is not complete."""
    if not (folder / files.RUN).is_file():
        raise ReportError(f"--finish {folder}: holds no report")
    if (folder / files.MANIFEST).exists():
        raise ReportError(f"--finish {folder}: is complete, and a complete report is never altered")
    return folder


def make(options: argparse.Namespace, arguments: list[str]) -> int:
    """A new report, or the rest of an interrupted one."""
    folder = options.out
    about = {
        "digests": identity.digests(),
        "machine": identity.machine(options.device),
        "options": {"only": options.only, "quick": options.quick, "seed": options.seed},
    }
    command = f"python -m samebits.report {shlex.join(arguments)}"
    if not files.claim(folder, about):
        files.write_json(
            folder / files.RUN, {"identity": about, "commands": [command], "started": finish.now()}
        )
    if not (folder / files.CASES).exists():
        with progress(len(SECTIONS)) as shown:
            if options.jobs > 1:
                apart.measure(folder, options, options.jobs, shown)
            cases = runner.measure(folder, options, shown)
        finish.keep_cases(folder, cases)
    if options.measure_only:
        print(f"measured; `python -m samebits.report --finish {folder}` draws and closes the report")
        return 0
    return conclude(folder, finish.close(folder))


def conclude(folder: Path, cases: list[Case]) -> int:
    """Say what came of it."""
    say_failures(cases)
    counts = counted(cases)
    print(f"{folder / files.PAGE}: " + ", ".join(f"{count:,} {status}" for status, count in counts.items()))
    return status(cases)


def status(cases: list[Case]) -> int:
    """1 when a case failed, 2 when none passed either."""
    counts = counted(cases)
    return 1 if counts[FAILED] else 0 if counts[PASSED] else 2


def say_failures(cases: list[Case]) -> None:
    """One line for each of the first failed cases."""
    failed = [case for case in cases if case.status == FAILED]
    for case in failed[:20]:
        place = " ".join(text for text in (case.operator, case.dtype, case.method) if text)
        order = f", order {case.order}" if case.order is not None else ""
        print(f"failed: {case.section}: {case.case} {place}{order}: {case.reason}")
    if len(failed) > 20:
        print(f"... and {len(failed) - 20} more in {files.CASES}")


def report_verdict(folder: Path) -> int:
    """Check a report and say what is wrong with it."""
    verdict = verify.verify(folder)
    for problem in verdict.problems:
        print(f"wrong: {problem}")
    for words in verdict.unjudged:
        print(f"not judged: {words}")
    for words in verdict.remarks:
        print(f"note: {words}")
    if verdict.problems:
        return 1
    counts = counted(verdict.cases)
    said = f"{counts[PASSED]:,} passed, {counts[FAILED]:,} failed, {counts[SKIPPED]:,} skipped"
    if verdict.unjudged:
        print(f"{folder}: the files are those of the manifest ({said}), but not everything could be judged")
        return 2
    how = ", figures by what they show" if verdict.remarks else ""
    print(f"{folder}: files, cases, figures and page agree{how} ({said})")
    return 0
