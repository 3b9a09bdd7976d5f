"""The C++ reference as one Markdown page, from the `///` comments of include/samebits."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cxxheaderparser.simple import ClassScope, NamespaceScope, parse_string

# In reading order; a header that is not named here comes last. Those left out say nothing of their own.
ORDER = "logp linear_logp matmul row_ops embedding plan view dtype context error cuda".split()
LEFT_OUT = {"samebits"}
LINE = 100
INTRODUCTION = """# C++

`#include <samebits/samebits.h>` (and `<samebits/cuda.h>` for GPUs) and link `samebits::samebits`
([installation](../install.md)). Everything is in the namespace `samebits`.

This page is made from the headers.
"""


def page(folder: Path) -> str:
    """All headers of `folder`."""
    names = {path.stem for path in folder.glob("*.h")} - LEFT_OUT
    known = [name for name in ORDER if name in names]
    parts = [_header(folder / f"{name}.h") for name in known + sorted(names - set(known))]
    return "\n".join([INTRODUCTION, *parts])


def _header(path: Path) -> str:
    text = path.read_text()
    # The parser takes a comment on the line after `///<` for more of it, unless a blank line is between.
    parsed = parse_string(re.sub(r"(///<[^\n]*\n)(?=[ \t]*///[^<])", r"\1\n", text))
    introduction = re.match(r"(?://[^\n]*\n)*", text)[0]
    lines = [f"## {path.name}", "", _text(introduction), ""]
    for scope in _namespaces(parsed.namespace.namespaces["samebits"]):
        lines += _scope(scope)
    return "\n".join(lines)


def _namespaces(scope: NamespaceScope) -> Iterator[NamespaceScope]:
    yield scope
    for name, inner in scope.namespaces.items():
        if name != "detail":
            yield from _namespaces(inner)


def _scope(scope: NamespaceScope) -> Iterator[str]:
    for kind in scope.enums:
        values = ((f"{value.name}", value.doxygen) for value in kind.values)
        yield from _section(kind.typename.segments[-1].name, kind.doxygen, _items(values))
    for kind in scope.classes:
        yield from _section(_name(kind.class_decl.typename), kind.class_decl.doxygen, _items(_members(kind)))
    for alias in scope.using_alias:
        yield from _section(alias.alias, alias.doxygen, (f"`using {alias.alias} = {alias.type.format()}`",))
    for constant in scope.variables:
        declaration = f"{constant.type.format()} {_name(constant.name)} = {constant.value.format()}"
        yield from _section(_name(constant.name), constant.doxygen, (f"`{declaration}`",))
    for function in scope.functions:
        code = ("```cpp", _signature(function), "```")
        yield from _section(_name(function.name), None, (*code, "", _text(function.doxygen)))


def _section(name: str, comment: str | None, body: Iterable[str]) -> Iterator[str]:
    yield from (f"### {name}", "", _text(comment), "", *body, "")


def _members(kind: ClassScope) -> Iterator[tuple[str, str | None]]:
    for field in kind.fields:
        if field.access == "public":
            value = f" = {field.value.format()}" if field.value else ""
            yield f"{field.type.format()} {field.name}{value}", field.doxygen
    for method in kind.methods:
        if method.access == "public" and method.doxygen:
            yield _signature(method, most=1000), method.doxygen


def _items(members: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    for declaration, comment in members:
        text = _text(comment).replace("\n", "\n    ")
        yield f"- `{declaration}`" + (f": {text}" if text else "")


def _signature(function, most: int = LINE) -> str:
    """The declaration; one parameter a line where a single line would be longer than `most`."""
    result = f"{function.return_type.format()} " if function.return_type else ""
    start = result + _name(function.name)
    if function.operator == "conversion":
        start = f"operator {function.return_type.format()}"
    parameters = [parameter.format() for parameter in function.parameters]
    line = f"{start}({', '.join(parameters)})"
    return line if len(line) <= most else f"{start}(\n    " + ",\n    ".join(parameters) + ")"


def _name(qualified) -> str:
    return qualified.segments[-1].name


def _text(comment: str | None) -> str:
    """A comment as Markdown: without its slashes, and nothing outside of backticks taken for HTML."""
    plain = "\n".join(re.sub(r"^\s*//+<? ?", "", line) for line in (comment or "").splitlines())
    plain = re.sub(r"docs/([\w-]+)\.md", r"[\1](../\1.md)", plain)
    return re.sub(r"`[^`]*`|<", lambda found: "&lt;" if found[0] == "<" else found[0], plain)
