"""`python -m samebits.report --verify` where other versions drew the figures: what they show is compared."""

import io
import json
import re

import pytest
from PIL import Image

from samebits.report import finish, page
from samebits.report import folder as files
from samebits.report.case import Case, counted, to_csv
from samebits.report.cli import main
from samebits.report.figures import FIGURES
from samebits.report.figures.shown import png_difference, svg_difference

CASES = [
    Case(
        "errors", "worst", "logp", "fp32", "reverse", order, "cpu", "passed", 1e-9 * order, 1e-8, 0.1 * order
    )
    for order in (1, 2, 3)
]
OVERVIEW, ERRORS = "figures/overview", "figures/errors"


@pytest.fixture
def report(tmp_path, monkeypatch):
    """A small complete report."""
    for name in FIGURES.keys() - {"overview", "errors"}:
        monkeypatch.delitem(FIGURES, name)
    files.write(tmp_path / files.CASES, to_csv(CASES))
    run = {
        "identity": {"machine": {}, "digests": {}, "options": {"quick": True}}, "commands": [],
        "started": "then", "finished": "then", "seconds": 1.0, "counts": counted(CASES),
        "sections": {"errors": {"title": "A section", "about": "", "commands": [], "seconds": 1.0}},
    }  # fmt: skip
    files.write_json(tmp_path / files.RUN, run)
    finish.close(tmp_path)
    return tmp_path


def drawn_elsewhere(folder, name, change, **versions):
    """The report as it were if another version had drawn one of its files in this way."""
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    run = json.loads((folder / files.RUN).read_text())
    run["drawn_with"] |= versions
    files.write_json(folder / files.RUN, run)
    shown = {path.name: path.read_bytes() for path in (folder / files.FIGURES).iterdir()}
    files.write(folder / files.PAGE, page.render(run, CASES, shown))
    files.write(folder / files.MANIFEST, files.manifest(folder))


def moved(svg):
    """Shapes by a hundredth of a point, letters by half of one, and names of shapes, as versions differ."""
    changed = svg.replace(b" 57.6 ", b" 57.61 ")
    changed = re.sub(
        rb' y="([\d.]+)" transform', lambda y: b' y="%f" transform' % (float(y[1]) + 0.5), changed
    )
    assert changed != svg and b'id="p' in svg
    return changed.replace(b'id="p', b'id="q').replace(b"url(#p", b"url(#q")


def compressed(png):
    """The same pixels in other bytes."""
    buffer = io.BytesIO()
    Image.open(io.BytesIO(png)).save(buffer, "png", compress_level=1)
    assert buffer.getvalue() != png
    return buffer.getvalue()


def spotted(png):
    """One pixel of another colour."""
    image = Image.open(io.BytesIO(png))
    image.putpixel((5, 5), (0, 0, 0, 255))
    buffer = io.BytesIO()
    image.save(buffer, "png")
    return buffer.getvalue()


def reworded(svg):
    """Another number in a cell."""
    assert b">0.30<" in svg
    return svg.replace(b">0.30<", b">0.03<")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (f"{ERRORS}.svg", moved, f"other bytes that show the same: {ERRORS}.svg\n"),
        (f"{OVERVIEW}.png", compressed, f"other bytes that show the same: {OVERVIEW}.png\n"),
        (f"{OVERVIEW}.png", spotted, f"other pixels, of drawings that show the same: {OVERVIEW}.png\n"),
    ],
    ids=["places and names", "compression", "pixels"],
)
def test_figures_that_show_the_same_agree_and_it_is_said(report, capsys, name, change, words):
    assert main(["--verify", str(report)]) == 0
    assert "note:" not in capsys.readouterr().out
    drawn_elsewhere(report, name, change, numpy="0.1")
    assert main(["--verify", str(report)]) == 0
    printed = capsys.readouterr().out
    assert f"note: {words}" in printed and "note: figures were drawn with matplotlib" in printed
    assert "numpy 0.1" in printed and "figures by what they show (3 passed" in printed


@pytest.mark.parametrize(
    ("name", "change"),
    [(f"{ERRORS}.svg", moved), (f"{OVERVIEW}.png", compressed), (f"{OVERVIEW}.svg", reworded)],
)
def test_other_bytes_of_the_same_versions_are_wrong(report, capsys, name, change):
    drawn_elsewhere(report, name, change)
    assert main(["--verify", str(report)]) == 1
    assert f"wrong: {name}: is not what the cases give" in capsys.readouterr().out


def test_figures_of_other_versions_that_show_something_else_are_not_judged(report, capsys):
    drawn_elsewhere(report, f"{OVERVIEW}.svg", reworded, matplotlib="0.1")
    assert main(["--verify", str(report)]) == 2
    printed = capsys.readouterr().out
    assert f"not judged: {OVERVIEW}.svg has 'text 0.03" in printed
    assert "not everything could be judged" in printed


def test_a_file_that_is_no_picture_is_not_judged_by_the_drawing_beside_it(report, capsys):
    drawn_elsewhere(report, f"{OVERVIEW}.png", lambda png: b"x", matplotlib="0.1")
    assert main(["--verify", str(report)]) == 2
    assert f"not judged: {OVERVIEW}.png is no picture" in capsys.readouterr().out


def test_a_page_is_held_to_the_figures_beside_it(report, capsys):
    def other(html):
        return html.replace(b"A section", b"Another section")

    drawn_elsewhere(report, f"{OVERVIEW}.png", compressed, pillow="0.1")
    files.write(report / files.PAGE, other((report / files.PAGE).read_bytes()))
    files.write(report / files.MANIFEST, files.manifest(report))
    assert main(["--verify", str(report)]) == 1
    assert "wrong: report.html: is not what the cases give" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "is no JSON object"),
        ({}, "is not that of a report"),
        ({"identity": []}, "is not that of a report"),
    ],
)
def test_a_run_that_is_none_of_a_report_is_named(report, capsys, content, words):
    (report / files.RUN).write_text(json.dumps(content))
    files.write(report / files.MANIFEST, files.manifest(report))
    assert main(["--verify", str(report)]) == 1
    assert f"wrong: run.json: {words}" in capsys.readouterr().out


SVG = '<svg xmlns="http://www.w3.org/2000/svg"><path id="{}" d="M {} 2 L 3 4"/><text x="{}">{}</text></svg>'


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (("b", 1.04, 9.9, "0.1"), ""),
        (("a", 1.06, 9, "0.1"), "0.06 pt from where it is drawn"),
        (("a", 1, 10.1, "0.1"), "1.1 pt from where it is drawn"),
        (("a", 1, 9, "0.2"), "where 'text 0.2 x=' is drawn"),
        (("a", "1 2 L 1", 9, "0.1"), "where 'path"),
    ],
)
def test_drawings_are_compared_by_words_and_places(after, words):
    before, after = (SVG.format(*values).encode() for values in (("a", 1, 9, "0.1"), after))
    assert (words in svg_difference(before, after)) if words else svg_difference(before, after) == ""


GROUP = '<svg xmlns="http://www.w3.org/2000/svg"><g transform="{}">{}</g></svg>'


@pytest.mark.parametrize(
    ("held", "before", "after", "words"),
    [
        ("<path d='M 1 2'/>", "translate(5 5)", "translate(5.04 5)", ""),
        ("<path d='M 1 2'/>", "translate(5 5)", "translate(5.9 5)", "0.9 pt from where it is drawn"),
        ("<path d='M 1 2'/><text>a</text>", "translate(5 5)", "translate(5.9 5)", "0.9 pt from"),
        ("<text>a</text>", "translate(5 5)", "translate(5.9 5)", ""),
        ("<text>a</text>", "translate(5 5) scale(0.1)", "translate(5 5) scale(0.9)", "scale(0.1)"),
        ("<text>a</text>", "rotate(-0 5 5)", "rotate(0 5.5 5)", ""),
        ("<text>a</text>", "rotate(90 5 5)", "rotate(89.5 5 5)", "rotate([90.0])"),
    ],
)
def test_a_group_moves_what_it_holds(held, before, after, words):
    found = svg_difference(GROUP.format(before, held).encode(), GROUP.format(after, held).encode())
    assert words in found if words else found == ""


def test_words_behind_a_part_of_a_text_are_compared():
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><text>2<tspan>-3</tspan> passed</text></svg>'
    assert "before passed" in svg_difference(svg.encode(), svg.replace("passed", "failed").encode())


def resealed(report, name, change):
    (report / name).write_bytes(change((report / name).read_bytes()))
    if name != files.MANIFEST:
        files.write(report / files.MANIFEST, files.manifest(report))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        (files.CASES, lambda table: table + b"\xff\n", "cases.csv: cannot be read"),
        (files.MANIFEST, lambda lines: b"\xff" + lines, "SHA256SUMS: cannot be read"),
        (files.RUN, lambda run: run + b"\xff", "run.json: cannot be read"),
        (files.RUN, lambda run: b"[" * 200_000, "run.json: cannot be read"),
        (
            files.CASES,
            lambda table: table.replace(b",passed,", b",good,", 1),
            "case 1 of the table: status: is 'good'; may be passed, failed, skipped",
        ),
        (
            files.CASES,
            lambda table: table.replace(b"errors,worst", b"other,worst", 1),
            "run.json: names no section other, which has cases",
        ),
        (
            files.CASES,
            lambda table: table.splitlines()[0] + b"\n",
            "cases.csv: has no case of section errors",
        ),
        (
            f"{ERRORS}.svg",
            lambda svg: svg.replace(b"<path", b"<\xff", 1),
            f"{ERRORS}.svg: is no drawing, for it is no text",
        ),
        (files.MANIFEST, lambda lines: lines + b"garbage", "SHA256SUMS: line 8 is no SHA-256 with the name"),
        (files.PAGE, lambda page: b"garbage", "report.html: is not what the cases give"),
    ],
    ids=["table not UTF-8", "manifest not UTF-8", "run not UTF-8", "deep", "status", "section", "empty",
         "figure not UTF-8", "manifest of garbage", "page of garbage"],
)  # fmt: skip
def test_what_cannot_be_read_or_says_nothing_is_wrong_and_named(report, capsys, name, change, words):
    resealed(report, name, change)
    assert main(["--verify", str(report)]) == 1
    assert words in capsys.readouterr().out


def test_a_missing_page_is_wrong_and_a_folder_of_something_else_is_no_report(report, tmp_path, capsys):
    (report / files.PAGE).unlink()
    assert main(["--verify", str(report)]) == 1
    assert "wrong: report.html: is missing\n" in capsys.readouterr().out
    other = tmp_path / "other"
    other.mkdir()
    (other / "junk").write_bytes(b"\xff\0")
    for folder, says in ((other, "has no SHA256SUMS"), (other / "junk", "is no folder")):
        assert main(["--verify", str(folder)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"samebits.report: --verify {folder}: {says}")


def test_what_is_no_figure_is_none():
    assert "is no drawing" in svg_difference(b"", SVG.encode())
    assert "is no picture" in png_difference(b"", b"")
    whole = SVG.format("a", 1, 2, "x").encode()
    assert "parts" in svg_difference(whole, whole.replace(b"</svg>", b"<text/></svg>"))
