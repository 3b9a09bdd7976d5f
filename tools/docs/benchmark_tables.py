"""Tables of the site, made from evidence/ and bench/results/, so that no figure in them is typed.

A page says `<!-- table: NAME -->`; NAME is a function below. What has not been recorded is said so.
"""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from cells import contestants, load, table
from cpu_tables import cpu_kernels, cpu_logp, cpu_overhead, cpu_terms

MARK = re.compile(r"<!-- table: ([\w-]+) -->")
MEBIBYTE = 2**20
# The files of a device that count differing values, and the operator of each.
COUNTED = {"bits": "logp", "products": "matmul", "heads": "linear_logp", "embedding": "embedding"}


def filled(markdown: str, root: Path) -> str:
    """The page with its tables in their places; KeyError for a name that no table has."""
    return MARK.sub(lambda found: TABLES[found[1]](root), markdown)


def _shape(line: dict) -> str:
    return f"{line['rows']} x {line['vocab']} {line['dtype']}"


def _rows(line: dict) -> int:
    return line["rows"]


def _per_device(root: Path, name: str, part: Callable[[dict, Path], str]) -> str:
    """`part` of the file `name` of each device, under a line that says what it was taken with."""
    parts = []
    folders = (path for path in (root / "evidence").iterdir() if path.is_dir())
    for folder in sorted(path for path in folders if not path.name.startswith("cpu-")):
        file, found = f"`evidence/{folder.name}/{name}.json`", load(folder / f"{name}.json")
        if found is None:
            parts.append(f"{file} has not been recorded.")
            continue
        run = found["run"]
        taken = f"driver {run['driver']}, torch {run['torch']}, samebits {run['samebits']}"
        sources = f"sources `{run['source_sha256'][:12]}`"
        parts.append(f"**{run['device']}**, {file}: {taken}, {sources}.\n\n{part(found, folder)}")
    return "\n\n".join(parts)


def gpu_bits(root: Path) -> str:
    """How many values of a device differ from the CPU, or between ways of computing them."""

    def part(_: dict, folder: Path) -> str:
        rows = []
        for name, operator in COUNTED.items():
            recorded = load(folder / f"{name}.json")
            counts: list[Any] = ["not recorded", "", ""]
            if recorded:
                cases = recorded["cases"]
                size = sum(case["case"].get("rows", case["case"].get("count", 0)) for case in cases)
                counts = [len(cases), size, sum(differing(case) for case in cases)]
            rows.append([f"`{operator}`", f"`{name}.json`", *counts])
        return table(["operator", "file", "cases", "rows of all cases", "values that differ"], rows)

    return _per_device(root, "bits", part)


def differing(record: dict) -> int:
    """All counts of a record: against the CPU, between engines, batches and layouts."""
    total = 0
    for key, value in record.items():
        if "that_differ" in key or key == "engines":
            counts = value.values() if isinstance(value, dict) else [value]
            total += sum(count for count in counts if isinstance(count, int))
    return total


def gpu_logp(root: Path) -> str:
    """logp against its peers on large batches."""

    def of_backward(name: str) -> bool:
        return "backward" in name or name == "copy"

    def part(found: dict, _: Path) -> str:
        lines = found["large"]
        forward = contestants("ms", lines, _shape, "milliseconds", lambda name: not of_backward(name))
        return f"{forward}\n\n{contestants('ms', lines, _shape, 'milliseconds', of_backward)}"

    return _per_device(root, "timings", part)


def gpu_few(root: Path) -> str:
    """logp of few rows, inside CUDA graphs."""
    return _per_device(
        root, "timings", lambda found, _: contestants("us", found["few"], _shape, "microseconds_in_a_graph")
    )


def gpu_arithmetic(root: Path) -> str:
    """Elements of torch's own operators, and weights of its optimizers, that differ from the CPU's."""

    def part(found: dict, _: Path) -> str:
        names = dict.fromkeys(line["name"] for line in found["operators"])
        counts = {(line["name"], line["dtype"]): line["differing"] for line in found["operators"]}
        operators = [
            [f"`{name}`", *(counts.get((name, dtype), "") for dtype in ("fp32", "fp64"))] for name in names
        ]
        steps = [[line["name"], line["differing"][0], line["differing"][-1]] for line in found["optimizers"]]
        last = len(found["optimizers"][0]["differing"])
        return "\n\n".join(
            [
                table([f"elements that differ, of {found['elements']:,}", "fp32", "fp64"], operators),
                table(
                    [f"weights that differ, of {found['weights']:,}", "after 1 step", f"after {last}"], steps
                ),
            ]
        )

    return _per_device(root, "arithmetic", part)


def gpu_head(root: Path) -> str:
    """linear_logp against bare products, PyTorch and others, its memory, and few tokens in CUDA graphs.

    Groups that a file does not hold have no table.
    """

    def part(found: dict, _: Path) -> str:
        made = []
        if large := found.get("large"):
            made += _head_times(large, "tokens", _rows)
        if bytes_of := [*found.get("large", ()), *found.get("memory", ())]:
            made.append(_head_memory(bytes_of))
        if few := found.get("few"):
            made.append(contestants("tokens; forward in a CUDA graph, us", few, _rows, "microseconds"))
        for group, title in HEAD_GROUPS.items():
            if lines := found.get(group):
                made += [f"{title}:", *_head_times(lines, "tokens x hidden x vocabulary", _head_shape)]
        return "\n\n".join([*made, *_head_notes(found)])

    return _per_device(root, "head_timings", part)


HEAD_GROUPS = {
    "small": "Few tokens, each call after products that are not timed, which hide the time of Python",
    "shapes": "Other shapes",
    "sums": "Against a head that gives the sum over the tokens alone",
}


def _head_shape(line: dict) -> str:
    return f"{line['rows']} x {line['size']} x {line['vocab']}"


def _head_times(lines: list[dict], unit: str, label: Callable[[dict], Any]) -> list[str]:
    """Forward, both, and the ratios where they are recorded."""
    made = [
        contestants(f"{unit}; forward, ms", lines, label, "forward_milliseconds"),
        contestants(f"{unit}; both, ms", lines, label, "forward_and_backward_milliseconds"),
    ]
    ratios = [
        {"label": f"{label(line)}: {form}", "over": others}
        for line in lines
        for form, others in line.get("samebits_over_others", {}).items()
        if others
    ]
    title = f"{unit}; time of samebits over that of"
    return made + ([contestants(title, ratios, lambda line: line["label"], "over")] if ratios else [])


def _head_memory(lines: list[dict]) -> str:
    keys = {"forward": "forward_extra_bytes", "backward": "backward_extra_bytes",
            "8 bytes an element of hidden": "backward_extra_bytes_allowed_for_hidden"}  # fmt: skip
    sizes = ((line[key] for key in keys.values()) for line in lines)
    rows = ([_rows(line), *(size and size / MEBIBYTE for size in of_line)]
            for line, of_line in zip(lines, sizes, strict=True))  # fmt: skip
    return table(["tokens; MiB beyond operands and gradients", *keys], rows)


def _head_notes(found: dict) -> list[str]:
    """Versions of other packages, who did not run and why, and what was cut short."""
    lines = [line for group in ("large", *HEAD_GROUPS) for line in found.get(group, ())]
    versions = {name: version for line in lines for name, version in line.get("versions", {}).items()}
    reasons: dict[str, list[str]] = {}
    for line in lines:
        for name, reason in line.get("not_run", {}).items():
            reasons.setdefault(f"{name}: {reason}", []).append(_head_shape(line))
    notes = []
    if versions:
        notes.append(f"Versions: {', '.join(f'{name} {version}' for name, version in versions.items())}.")
    if reasons:
        items = "\n".join(f"- {reason} (at {', '.join(where)})" for reason, where in reasons.items())
        notes.append(f"Not run:\n\n{items}")
    for group, line in found.get("unfinished", {}).items():
        notes.append(f"Group {group} was cut short at {line}.")
    return notes


def gpu_kernels(root: Path) -> str:
    """The library's own kernels, from C++."""

    def part(found: dict, _: Path) -> str:
        by_shape: dict[str, dict] = {}
        for line in found["lines"]:
            by_shape.setdefault(_shape(line), {"shape": _shape(line), "rates": {}})["rates"][line["what"]] = (
                line["gb_per_s"]
            )
        return contestants("GB/s", list(by_shape.values()), lambda line: line["shape"], "rates")

    return _per_device(root, "bench", part)


def runs(root: Path) -> str:
    """Every result of `python -m samebits.bench` in the repository, as that command prints it."""
    parts = []
    for path in sorted([*root.glob("bench/results/*.json"), *root.glob("evidence/*/*.json")]):
        found = json.loads(path.read_text())
        if isinstance(found, dict) and found.get("schema") == "samebits.bench.v1":
            parts.append(f"### `{path.relative_to(root)}`\n\n{_bench_table().markdown(found)}")
    return "\n\n".join(parts) or "No result of `python -m samebits.bench` has been recorded."


def _bench_table() -> ModuleType:
    """samebits/bench/table.py, which needs nothing, without the package, which needs to be built."""
    file = Path(__file__).resolve().parents[2] / "python" / "samebits" / "bench" / "table.py"
    spec = importlib.util.spec_from_file_location("bench_table", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLES: dict[str, Callable[[Path], str]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        gpu_arithmetic,
        gpu_bits,
        gpu_logp,
        gpu_few,
        gpu_head,
        gpu_kernels,
        cpu_logp,
        cpu_overhead,
        cpu_kernels,
        cpu_terms,
        runs,
    )
}
