"""The report as one HTML page that needs nothing else: figures are inside, nothing is loaded."""

import html
from collections.abc import Iterable
from typing import Any

from samebits.report.case import FAILED, PASSED, SKIPPED, STATUSES, Case, counted
from samebits.report.figures import FIGURES

_STYLE = """
:root { color-scheme: light dark; --line: color-mix(in srgb, CanvasText 18%, Canvas); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .86rem; } .wide { overflow-x: auto; }
th, td { text-align: left; padding: .18rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.passed { color: #12857a; } .failed { color: #d04a35; font-weight: 600; } .skipped { color: #8a8f98; }
figure { margin: 1rem 0; background: #fff; padding: .5rem; border: 1px solid var(--line); overflow-x: auto; }
figure img { max-width: 100%; } figcaption { color: #52606d; font-size: .86rem; }
code, pre { font: .86rem/1.45 ui-monospace, monospace; } pre { overflow-x: auto; }
summary { cursor: pointer; }
"""
_COLUMNS = ("case", "operator", "dtype", "method", "order", "status", "value", "tolerance", "share", "reason")


MOST = 40  # passed cases of a section that the page shows; the table of cases has all


def render(run: dict[str, Any], cases: list[Case], drawn: dict[str, bytes]) -> str:
    """The page, a function of its arguments alone."""
    counts = counted(cases)
    body = [
        "<h1>samebits: acceptance report</h1>",
        f"<p>{_verdict(counts)}{_quick(run)} Every case is in <code>cases.csv</code>; a skipped case is not "
        "a passed one, and its reason stands beside it.</p>",
        "<h2>What was run</h2>",
        _pairs(run),
        "<h2>Sections</h2>",
        _sections(run, cases),
        _cases("Failed", [case for case in cases if case.status == FAILED], everywhere=True),
        _figure("overview", drawn),
    ]
    for name, about in run["sections"].items():
        body += _section(name, about, [case for case in cases if case.section == name], drawn)
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>samebits: acceptance report</title><style>{_STYLE}</style>\n"
        + "\n".join(body)
        + "\n</html>\n"
    )


def _verdict(counts: dict[str, int]) -> str:
    words = ", ".join(f'<span class="{status}">{counts[status]:,} {status}</span>' for status in STATUSES)
    return f"<strong>{words}.</strong>"


def _quick(run: dict) -> str:
    return " Small cases only (<code>--quick</code>)." if run["identity"]["options"]["quick"] else ""


def _pairs(run: dict) -> str:
    rows = []
    flat = {**run["identity"]["machine"], **run["identity"]["digests"]}
    flat |= {"started": run["started"], "finished": run["finished"], "seconds": run["seconds"]}
    flat["figures drawn with"] = run["drawn_with"]
    for name, value in flat.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key} {text}" for key, text in value.items()) or "none"
        shown = "not run in a checkout" if value is None else str(value)
        label = name.replace("_", " ")
        rows.append(f"<tr><th>{_text(label)}</th><td><code>{_text(shown)}</code></td></tr>")
    commands = "\n".join(run["commands"])
    return f'<div class="wide"><table>{"".join(rows)}</table></div><pre>{_text(commands)}</pre>'


def _sections(run: dict, cases: list[Case]) -> str:
    rows = ["<tr><th>section</th><th>passed</th><th>failed</th><th>skipped</th><th>seconds</th></tr>"]
    for name, about in run["sections"].items():
        counts = counted(case for case in cases if case.section == name)
        cells = "".join(
            f'<td class="n {status if counts[status] else "skipped"}">{counts[status]:,}</td>'
            for status in STATUSES
        )
        link = f'<a href="#{name}">{_text(about["title"])}</a>'
        rows.append(f'<tr><td>{link}</td>{cells}<td class="n">{about["seconds"]}</td></tr>')
    return f"<table>{''.join(rows)}</table>"


def _section(name: str, about: dict, cases: list[Case], drawn: dict[str, bytes]) -> Iterable[str]:
    yield f'<h2 id="{name}">{_text(about["title"])}</h2><p>{_text(about["about"])}</p>'
    if about["commands"]:
        commands = "\n".join(about["commands"])
        yield f"<pre>{_text(commands)}</pre>"
    for figure, drawing in FIGURES.items():
        if name in drawing.sections:
            yield _figure(figure, drawn)
    yield _skips([case for case in cases if case.status == SKIPPED])
    near = sorted((case for case in cases if case.status == PASSED), key=lambda case: -(case.share or 0))
    yield _cases(
        f"Passed, nearest to their tolerance first: {len(near[:MOST])} of {len(near):,}",
        near[:MOST],
        everywhere=False,
    )


def _figure(name: str, drawn: dict[str, bytes]) -> str:
    data = drawn[f"{name}.svg"].decode()
    for character, instead in (("%", "%25"), ("#", "%23"), ("&", "&amp;"), ("'", "&#39;")):
        data = data.replace(character, instead)
    caption = _text(FIGURES[name].caption)
    return (
        f"<figure><img alt='{caption}' src='data:image/svg+xml,{data}'>"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _skips(cases: list[Case]) -> str:
    """How many were skipped for which reason."""
    reasons: dict[str, int] = {}
    for case in cases:
        reasons[case.reason] = reasons.get(case.reason, 0) + 1
    if not reasons:
        return ""
    items = "".join(f"<li>{count}: {_text(reason)}</li>" for reason, count in reasons.items())
    return f'<p>Skipped:</p><ul class="skipped">{items}</ul>'


def _cases(title: str, cases: list[Case], everywhere: bool) -> str:
    """A table of cases; folded away but for failures."""
    if not cases:
        return ""
    names = ("section", *_COLUMNS) if everywhere else _COLUMNS
    lines = ["<tr>" + "".join(f"<th>{name}</th>" for name in names) + "</tr>"]
    for case in cases:
        lines.append("<tr>" + "".join(_cell(case, name) for name in names) + "</tr>")
    table = f'<div class="wide"><table>{"".join(lines)}</table></div>'
    shown = " open" if everywhere else ""
    return f"<details{shown}><summary>{_text(title)}</summary>{table}</details>"


def _cell(case: Case, name: str) -> str:
    value = getattr(case, name)
    if name == "status":
        return f'<td class="{value}">{value}</td>'
    if isinstance(value, (int, float)):
        return f'<td class="n">{value:.3g}</td>'
    return f"<td>{_text('' if value is None else value)}</td>"


def _text(words: str) -> str:
    return html.escape(str(words), quote=True)
