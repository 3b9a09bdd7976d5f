"""Reports that are kept with the repository are what their runs wrote."""

import warnings
from pathlib import Path

import pytest

from samebits.report.case import FAILED
from samebits.report.verify import verify

ROOT = Path(__file__).resolve().parents[2]
REPORTS = sorted(path.parent for path in (ROOT / "evidence").glob("*/report/run.json"))


@pytest.mark.parametrize("folder", REPORTS, ids=lambda folder: folder.parent.name)
def test_files_cases_figures_and_page_agree_and_nothing_failed(folder):
    verdict = verify(folder)
    assert verdict.problems == []
    assert [case for case in verdict.cases if case.status == FAILED] == []
    for words in verdict.unjudged:  # newer code may draw other figures; the files are still those of the run
        warnings.warn(f"{folder.parent.name}: {words}", stacklevel=1)


def test_there_is_a_report():
    assert REPORTS
