"""What the autodiff check found, summed up and as a table."""

from samebits.check.entry import Entry
from samebits.check.methods import METHODS


def summary(entries: list[Entry]) -> list[dict]:
    """For each precision, method and order: the largest error, its tolerance, and the worst share of any
    entry."""
    groups: dict[tuple, list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.precision, entry.method, entry.order), []).append(entry)
    lines = []
    for (precision, method, order), found in groups.items():
        largest = max(found, key=lambda entry: (not entry.passed, _size(entry.error)))
        measured = [entry for entry in found if entry.error is not None]
        resolutions = [entry.resolution for entry in measured if entry.resolution is not None]
        lines.append(
            {
                "precision": precision,
                "method": method,
                "order": order,
                "cases": len(found),
                "failed": sum(not entry.passed for entry in found),
                "error": largest.error,
                "tolerance": largest.tolerance,
                "share": max(found, key=lambda entry: _size(entry.share)).share if measured else None,
                "resolution": min(resolutions, default=None),
            }
        )
    return lines


def _size(number: float | None) -> float:
    return float("inf") if number is None else number


def print_report(console, data: dict) -> None:
    """Largest error beside its tolerance, one line for each precision and order."""
    from rich.table import Table

    table = Table(title="Largest error / its tolerance", title_style="bold", caption=CAPTION)
    table.add_column("precision")
    table.add_column("order", justify="right")
    for method in METHODS:
        table.add_column(method, justify="right", header_style="bold cyan")
    table.add_column("worst share", justify="right")
    by_place = {(line["precision"], line["order"], line["method"]): line for line in data["summary"]}
    before = None
    for precision, order in dict.fromkeys((p, o) for p, o, method in by_place if method in METHODS):
        if before not in (None, precision):
            table.add_section()
        lines = [by_place.get((precision, order, method)) for method in METHODS]
        shares = [line["share"] for line in lines if line]
        worst = "" if None in shares else f"{max(shares):.3f}"
        table.add_row(precision if precision != before else "", str(order), *map(_cell, lines), worst)
        before = precision
    console.print(table)
    others = [line for line in data["summary"] if line["method"] not in METHODS]
    for line in others:
        console.print(f"{line['method']}, order {line['order']}, {line['precision']}: ", end="")
        console.print(_cell(line), f"[dim]of {line['cases']} cases")
    failed = [entry for entry in data["entries"] if not entry["passed"]]
    for entry in failed[:20]:
        place = ", ".join(str(entry[name]) for name in ("precision", "method", "output", "form"))
        console.print(
            f"[red]failed[/] {place}, order {entry['order']}: {entry['error']} / {entry['tolerance']}"
        )
    total = len(data["entries"])
    verdict = f"[red]{len(failed):,} failed" if failed else "[green]all within their tolerance"
    console.print(f"{total:,} comparisons, {verdict}[/]; {data['seconds']:.0f} s, {data['device']}.")


def _cell(line: dict | None) -> str:
    if line is None:
        return ""
    if line["failed"]:
        return f"[bold red]{line['failed']} failed[/]"
    if line["error"] is None:
        return f"[green]passed[/] [dim]at {line['tolerance']:.0e}"
    return f"[green]{line['error']:.1e}[/] [dim]{line['tolerance']:.1e}[/]"


CAPTION = (
    "Absolute errors of derivatives of logp, lse and entropy; dense, rows=, out= and per-row temperature. "
    "Worst share: largest error over tolerance of any element. python/samebits/check/tolerance.py derives it."
)
