"""The direction of dependencies between rooms, and which outside library may be seen from where."""

import re
from pathlib import Path

# room -> rooms it may include. `include` is the public API (and the generated version header).
ARROWS = {
    "include": {"include"},
    "order": {"order"},
    "core": {"core", "include", "order"},
    "ref": {"ref", "core", "include", "order"},
    "cpu": {"cpu", "core", "include", "order"},
    "cuda": {"cuda", "core", "include", "order"},
    "cli": {"cli", "core", "include", "ref"},
    "torch": {"torch", "include"},
}
# pattern of an outside header -> rooms that may include it
OUTSIDE = {
    r"^(torch|ATen|c10)/": {"torch"},
    r"^(cuda|cub|cute|cutlass|cublas|nv)": {"cuda"},
    r"^hwy/": {"cpu", "cli"},
    r"^(quadmath|mpfr)": {"ref"},
    r"^(CLI|nlohmann)/": {"cli"},
    r"^Python\.h$|^pybind11/|^nanobind/": set(),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', re.M)


def room_of(path: Path) -> str | None:
    parts = path.parts
    if parts[0] == "include":
        return "include"
    if parts[0] == "bindings" and len(parts) > 2:
        return parts[1]
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    return None


def target_of(header: str, source: Path) -> str | None:
    head = header.split("/")[0]
    if head == "samebits":
        return "include"
    if head in ARROWS:
        return head
    return room_of(source.parent / header) if header.startswith("..") else None


def problems(root: Path, files: list[Path]) -> list[str]:
    found = []
    for path in files:
        room = room_of(path)
        if room is None or path.suffix not in {".h", ".cpp", ".cu", ".cuh", ".inc"}:
            continue
        if room not in ARROWS:
            found.append(f"{path}: no such room '{room}'; rooms are {', '.join(ARROWS)}")
            continue
        for header in INCLUDE.findall((root / path).read_text()):
            if room == "torch" and header.startswith("torch/"):
                continue  # torch's own headers, not the room of that name
            target = target_of(header, path)
            if target is not None and target not in ARROWS[room]:
                found.append(
                    f"{path}: includes {header}; {room} may include {', '.join(sorted(ARROWS[room]))}"
                )
            for pattern, rooms in OUTSIDE.items():
                if re.search(pattern, header) and room not in rooms:
                    allowed = ", ".join(sorted(rooms)) or "nobody"
                    found.append(f"{path}: includes {header}, which only {allowed} may include")
    return found
