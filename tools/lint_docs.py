"""Every public symbol says what it is: `///` in include/samebits, docstrings in python/samebits."""

import ast
import re
from pathlib import Path

# Declarations that say nothing of their own: forward declarations, defaulted and deleted members, access
# labels, destructors, explicit instantiations.
TRIVIAL = re.compile(
    r"=\s*(default|delete)\s*$|^(class|struct|enum class)\s+\w+$|^(public|private|protected)\s*:"
    r"|^static_assert|^using namespace|^~|^template\s+class|^extern\s+template"
)
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|^[ \t]*#(?:[^\n\\]|\\.)*', re.S | re.M
)


def blank_out(text: str) -> tuple[str, set[int], set[int]]:
    """The text without comments, strings and macros; the lines with a doc comment; those with `///<`."""
    leading, trailing = set(), set()

    def replace(match: re.Match) -> str:
        token = match.group(0)
        first = text.count("\n", 0, match.start()) + 1
        if token.startswith(("///", "/**")):
            kind = trailing if token.startswith(("///<", "/**<")) else leading
            kind.update(range(first, first + token.count("\n") + 1))
        quoted = token[0] in "\"'"
        return re.sub(r"[^\n]", "0" if quoted else " ", token)

    return TOKEN.sub(replace, text), leading, trailing


def undocumented_cpp(text: str) -> list[tuple[int, str]]:
    """(line, declaration) of each undocumented declaration at namespace or public class scope."""
    code, leading, trailing = blank_out(text)
    missing, scopes, start, depth, is_body = [], ["namespace"], None, 0, False

    def line_of(at: int) -> int:
        return code.count("\n", 0, at) + 1

    def check(first: int, last: int) -> str:
        declaration = " ".join(code[first:last].split())
        lines = range(line_of(first), line_of(last) + 1)
        documented = line_of(first) - 1 in leading or (leading | trailing).intersection(lines)
        visible = scopes[-1] in ("namespace", "public", "enum")
        if declaration and visible and not TRIVIAL.search(declaration) and not documented:
            missing.append((line_of(first), declaration[:80]))
        return declaration

    for at, char in enumerate(code):
        if depth:  # inside a function body or an initialiser: nothing is declared to the public there
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth == 0 and is_body:
                start = None
            continue
        if start is None:
            if char.isspace() or char in ";,":
                continue
            if char != "}":
                start = at
        if char == "{":
            head = " ".join(code[start:at].split())
            if re.match(r"(inline )?namespace\b|extern 0*$", head):
                scopes.append("namespace" if "detail" not in head else "private")
                start = None
            elif kind := re.match(r"(?:template\s*<.*>\s*)?(struct|class|union|enum)\b", head):
                check(start, at)
                hidden = scopes[-1] == "private"
                opened = {"enum": "enum", "class": "private"}.get(kind[1], "public")
                scopes.append("private" if hidden else opened)
                start = None
            else:
                is_body = not head.endswith("=")  # else an initialiser: the declaration goes on after it
                if is_body:
                    check(start, at)
                depth = 1
        elif char == "}":
            if start is not None:
                check(start, at)
            scopes.pop()
            start = None
        elif char == ":" and re.fullmatch(r"\s*(public|private|protected)\s*", code[start:at]):
            scopes[-1] = code[start:at].strip()
            start = None
        elif char == ";" or (char == "," and scopes[-1] == "enum"):
            check(start, at)
            start = None
    return missing


def undocumented_python(root: Path, files: list[Path]) -> list[str]:
    """Names exported by __all__ and public definitions of public modules, without a docstring."""
    found, exported, trees = [], set(), {}
    for path in files:
        program = "demo" in path.parts  # run, not imported
        if path.parts[0] == "python" and path.suffix == ".py" and not program:
            trees[path] = ast.parse((root / path).read_text())
            for node in trees[path].body:
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                    exported |= set(ast.literal_eval(node.value))
    for path, tree in trees.items():
        public_module = not any(p.startswith("_") and p != "__init__.py" for p in path.parts)
        if public_module and not ast.get_docstring(tree):
            found.append(f"{path}: the module has no docstring")
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            if node.name in exported or (public_module and not node.name.startswith("_")):
                members = node.body if isinstance(node, ast.ClassDef) else []
                for item in [node, *members]:
                    is_code = isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                    if (
                        is_code
                        and (item is node or not item.name.startswith("_"))
                        and not ast.get_docstring(item)
                    ):
                        found.append(f"{path}:{item.lineno}: {item.name} has no docstring")
    return found


def problems(root: Path, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        if path.parts[0] == "include" and path.suffix == ".h":
            for line, declaration in undocumented_cpp((root / path).read_text()):
                found.append(f"{path}:{line}: no doc comment: {declaration}")
    return found + undocumented_python(root, files)
