"""Docstrings as the site shows them: roles and pages become links, a list of names becomes many."""

import re
from pathlib import Path

import griffe

PAGES = Path(__file__).resolve().parents[2] / "docs"
ROLE = re.compile(r":(?:func|meth|class):`([\w.]+)`")
PAGE = re.compile(r"docs/([\w-]+\.md)")
# In a section: "    one, two,\n        three: text", and the lines of the text.
NAMES = re.compile(r"^    ([a-z_]\w*(?:,\s+[a-z_]\w*)+): (.*(?:\n {8,}.*)*)", re.M)


class Docstrings(griffe.Extension):
    """Rewrites every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        """One module, class, function or attribute."""
        if obj.docstring:
            text = NAMES.sub(_one_each, obj.docstring.value)
            text = ROLE.sub(lambda found: f"[`{_last(found[1])}`][{_target(found[1], obj)}]", text)
            obj.docstring.value = PAGE.sub(_link, text)


def _one_each(found: re.Match) -> str:
    return "\n".join(f"    {name}: {found[2]}" for name in re.split(r",\s+", found[1]))


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _target(name: str, place: griffe.Object) -> str:
    """Full path of what `name`, said in the docstring of `place`, means."""
    if name.startswith("samebits."):
        return name
    if place.is_function and place.parent.is_class and name in place.parent.members:
        return f"{place.parent.path}.{name}"
    private = "._" in place.module.path
    if name in place.module.members and not place.module.members[name].is_alias and not private:
        return f"{place.module.path}.{name}"
    return f"samebits.{name}"


def _link(found: re.Match) -> str:
    """The title of the page, leading there; a name that no page has stays as it is."""
    page = PAGES / found[1]
    if not page.is_file():
        return found[0]
    title = re.search(r"^# (.+)$", page.read_text(), re.M)[1].replace("`", "")
    return f"[{title}][{_anchor(title)}]"


def _anchor(title: str) -> str:
    """The anchor that Python-Markdown gives a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
