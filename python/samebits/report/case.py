"""One line of a report, and the table of all of them.

A case is passed, failed or skipped, and nothing turns one into another: what was not measured is skipped and
says why.
"""

import csv
import io
from collections.abc import Iterable
from typing import NamedTuple

from samebits.report.errors import ReportError

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
STATUSES = (PASSED, FAILED, SKIPPED)


class Case(NamedTuple):
    """What was looked at, how, and what came of it.

    A section gives everything but `section`, `device` and `seconds`, which the runner knows.
    """

    section: str = ""
    case: str = ""
    operator: str = ""
    dtype: str = ""
    method: str = ""
    order: int | None = None  # of a derivative; 0 is the value itself
    device: str = ""
    status: str = FAILED
    value: float | None = None  # what was measured, in `unit`
    tolerance: float | None = None  # what `value` is held to
    share: float | None = (
        None  # largest error over tolerance of any element; `value` may be another element's
    )
    unit: str = ""
    reason: str = ""  # of a skip or a failure
    seconds: float = 0.0

    def problem(self) -> str | None:
        """Why this cannot be a line of a report, or None."""
        if self.status not in STATUSES:
            return f"status is {self.status!r}; may be {', '.join(STATUSES)}"
        if self.status == SKIPPED and not self.reason:
            return "skipped without a reason"
        if self.status != SKIPPED:
            return self._beyond() if self.status == PASSED else None
        if any(number is not None for number in (self.value, self.tolerance, self.share)):
            return "skipped, but it holds a measurement"
        return None

    def _beyond(self) -> str | None:
        if self.share is not None and not self.share <= 1:
            return f"passed with {self.share} of its tolerance used"
        measured = self.value is not None and self.tolerance is not None
        if measured and not self.value <= self.tolerance:
            return f"passed with {self.value} beyond its tolerance {self.tolerance}"
        return None

    def row(self) -> list[str]:
        """The fields as text that reads back as the same numbers."""
        return ["" if field is None else str(field) for field in self]


FIELDS = Case._fields
_NUMBERS = {"order": int, "value": float, "tolerance": float, "share": float, "seconds": float}


def from_row(row: list[str]) -> Case:
    """The case of one line of text."""
    if len(row) != len(FIELDS):
        raise ReportError(f"a case has {len(row)} fields; must be {len(FIELDS)}")
    values = {}
    for name, text in zip(FIELDS, row, strict=True):
        try:
            values[name] = (_NUMBERS[name](text) if text else None) if name in _NUMBERS else text
        except ValueError:
            raise ReportError(f"{name}: is {text!r}; must be a number") from None
    if values["status"] not in STATUSES:
        raise ReportError(f"status: is {values['status']!r}; may be {', '.join(STATUSES)}")
    return Case(**values)


def to_csv(cases: Iterable[Case]) -> str:
    """The table, with a line of names."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    writer.writerows(case.row() for case in cases)
    return text.getvalue()


def from_csv(text: str) -> list[Case]:
    """The cases of a table written by :func:`to_csv`."""
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise ReportError(f"the table of cases is none ({error})") from None
    if not rows or tuple(rows[0]) != FIELDS:
        raise ReportError(f"the table of cases does not begin with {','.join(FIELDS)}")
    cases = []
    for number, row in enumerate(rows[1:], 1):
        try:
            cases.append(from_row(row))
        except ReportError as error:
            raise ReportError(f"case {number} of the table: {error}") from None
    return cases


def counted(cases: Iterable[Case]) -> dict[str, int]:
    """How many are passed, failed and skipped."""
    counts = dict.fromkeys(STATUSES, 0)
    for case in cases:
        counts[case.status] += 1
    return counts
