"""Every link of the built site: pages, files and anchors are looked up, addresses elsewhere are a short list.

MkDocs checks the links of its pages before they are rendered. This sees what is rendered: the generated
reference, raw HTML, pictures, and whatever a theme adds.
"""

import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Addresses outside of the site that pages link to, and what for. Nothing is loaded from there.
ELSEWHERE = {
    "https://docs.vllm.ai/en/latest/features/batch_invariance/": "docs/grpo.md: another engine's mode",
    "https://squidfunk.github.io/mkdocs-material/": "the theme names its maker at the foot of each page",
}
TIMEOUT = 10.0  # seconds


class _Page(HTMLParser):
    """What a page can be linked at, and what it links to."""

    def __init__(self, path: Path):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {value for value in (found.get("id"), found.get("name")) if value}
        self.links += [value for value in (found.get("href"), found.get("src")) if value]


def problems(site: Path) -> list[str]:
    """Links that lead nowhere, and addresses elsewhere that are not listed, or not used."""
    site = site.resolve()
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html"))}
    found, used = [], set()
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https") or parts.netloc:
                used.add(link)
                if link not in ELSEWHERE:
                    found.append(f"{name}: {link} is not among the addresses of tools/docs/links.py")
            elif not parts.scheme and name != "404.html":  # that one is served at any address
                if problem := _inside(path, parts, pages):
                    found.append(f"{name}: {link} {problem}")
    unused = sorted(ELSEWHERE.keys() - used)
    return found + [f"tools/docs/links.py: no page links to {address}" for address in unused]


def _inside(path: Path, parts, pages: dict[Path, _Page]) -> str | None:
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    target = target / "index.html" if target.is_dir() else target
    if not target.exists():
        return "leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and target in pages and anchor not in pages[target].anchors and not anchor.startswith("__"):
        return "leads to no place of that page"
    return None


def gone(address: str) -> str | None:
    """What its server says against an address; None where it is there. OSError: it could not be asked."""
    request = urllib.request.Request(address, headers={"User-Agent": "samebits-docs"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT):
            return None
    except urllib.error.HTTPError as error:
        return f"is gone ({error.code})" if error.code in (404, 410) else None
