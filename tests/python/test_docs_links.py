"""tools/docs/links.py: what leads nowhere in a built site is found."""

import http.server
import importlib.util
import re
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("links", ROOT / "tools" / "docs" / "links.py")
links = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(links)

ELSEWHERE = "https://example.org/page/"
GOOD = (
    '<h1 id="top">A</h1><a href="#top">a</a><a href="folder/b.html#%C3%A9">b</a><img src="p.png">'
    f'<a href="{ELSEWHERE}">e</a><a href="mailto:x">m</a><a href="folder/">f</a><a href="#__top">t</a>'
)


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setattr(links, "ELSEWHERE", {ELSEWHERE: "a test"})
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.html").write_text('<a name="é" href="../a.html">a</a>')
    (tmp_path / "folder" / "index.html").write_text("")
    (tmp_path / "404.html").write_text('<a href="/anything">a</a>')
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "a.html").write_text(GOOD)
    return tmp_path


def test_a_good_site_has_no_problem(site):
    assert links.problems(site) == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("c.html", "a.html: c.html leads nowhere"),
        ("folder/b.html#c", "a.html: folder/b.html#c leads to no place of that page"),
        ("#c", "a.html: #c leads to no place of that page"),
        ("https://example.org/other", "https://example.org/other is not among the addresses"),
        ("//example.org/x.js", "//example.org/x.js is not among the addresses"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(site, link, problem):
    (site / "a.html").write_text(f'{GOOD}<a href="{link}">x</a>')
    (found,) = links.problems(site)
    assert problem in found


def test_an_address_that_no_page_needs_is_found(site):
    (site / "a.html").write_text("")
    assert links.problems(site) == [f"tools/docs/links.py: no page links to {ELSEWHERE}"]


def test_a_server_is_asked_whether_the_page_is_there(monkeypatch):
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(int(self.path[1:]))
            self.end_headers()

        def log_message(self, *words):
            pass

    monkeypatch.setenv("no_proxy", "*")
    with http.server.HTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        assert [links.gone(f"{address}/{status}") for status in (200, 404, 410, 403, 503)] == [
            None, "is gone (404)", "is gone (410)", None, None,
        ]  # fmt: skip
        server.shutdown()
    with pytest.raises(OSError, match="refused"):
        links.gone(address)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_pages_beside_the_site_link_to_files_that_are_there(name):
    found = re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text())
    assert found
    for link in found:
        assert link in links.ELSEWHERE or (ROOT / link.partition("#")[0]).exists(), link
