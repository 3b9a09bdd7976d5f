"""Profiles of the kernels by Nsight Compute, as text: how busy what is, and what limits each of them."""

import csv
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KERNELS = r"regex:sm90_product|nvjet|gemm|cutlass|largest_element|logp_(forward|backward)"
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "WarpStateStats")
# Rows of the head that are profiled; 0: `logp`.
SHAPES = (64, 2048, 8192, 0)
# Kernels of a shape: behind the products and the steps' first ones, the same come again for other columns.
MOST = 12
# Nothing under so many microseconds is listed.
SHORTEST = 20.0
# From here on a unit is said to limit a kernel, in percent of its peak; below it is the waiting for results.
BUSY = 60.0

_UNITS = {"L1": "L1/TEX Cache Throughput", "L2": "L2 Cache Throughput", "DRAM": "DRAM Throughput"}
_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
_PIPE = re.compile(r"(\w+) is the highest-utilized pipeline \(([\d.]+)%\)")
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
# Reasons that are no waiting.
_AT_WORK = {"selected", "not_selected"}


@dataclass
class Profile:
    """One kernel. Percentages are of a unit's peak while the kernel runs."""

    name: str
    microseconds: float
    gigahertz: float
    issue: float
    pipe: tuple[str, float]
    units: dict[str, float]
    stalls: dict[str, float]  # cycles a warp waits for each instruction, by reason

    def limit(self) -> str:
        """What the kernel is bound by."""
        busy = {"issue slots": self.issue, f"{self.pipe[0]} pipe": self.pipe[1], **self.units}
        most = max(busy, key=lambda unit: busy[unit])
        if busy[most] >= BUSY:
            return f"{most} {busy[most]:.0f}%"
        total = sum(self.stalls.values())
        longest = sorted(self.stalls.items(), key=lambda stall: -stall[1])[:2]
        reasons = ", ".join(f"{name.replace('_', ' ')} {100 * part / total:.0f}%" for name, part in longest)
        return f"latency ({reasons} of the waiting)" if total > 0 else "latency"


def short_name(name: str) -> str:
    """Without the return type, namespaces, casts and parameters."""
    name = re.sub(r"^void |\(\w+\)(?=[\w-])|\b(?:samebits|order|cuda|core)::", "", name)
    return re.split(r"\((?:CUtensorMap|const|[\w:]+[ ,)*&])", name)[0].replace(" >", ">").strip()


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def parse(details: Iterable[str], raw: Iterable[str]) -> list[Profile]:
    """Of the pages `details` and `raw` of a report, as lines of CSV."""
    stalls: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(raw):
        if row["ID"]:  # the second line has the units
            stalls[row["ID"]] = {
                match[1]: _number(value)
                for key, value in row.items()
                if key and (match := _STALL.fullmatch(key)) and match[1] not in _AT_WORK and value
            }
    found: dict[str, dict[str, Any]] = {}
    for row in csv.DictReader(details):
        one = found.setdefault(row["ID"], {"name": short_name(row["Kernel Name"]), "pipe": ("busiest", 0.0)})
        if row["Metric Name"]:
            one.setdefault(row["Metric Name"], (row["Metric Value"], row["Metric Unit"]))
        if pipe := _PIPE.search(row.get("Rule Description") or ""):
            one["pipe"] = (pipe[1], float(pipe[2]))
    profiles = []
    for key, one in found.items():
        duration, unit = one["Duration"]
        clock, clock_unit = one["SM Frequency"]
        profiles.append(
            Profile(
                one["name"],
                _number(duration) * _MICROSECONDS[{"nsecond": "ns", "usecond": "us"}.get(unit, unit)],
                _number(clock) * (1e-3 if clock_unit.lower().startswith("m") else 1.0),
                _number(one["Issue Slots Busy"][0]),
                one["pipe"],
                {name: _number(one[metric][0]) for name, metric in _UNITS.items()},
                stalls.get(key, {}),
            )
        )
    return profiles


def table(profiles: Iterable[Profile]) -> list[str]:
    """Lines of text, a kernel each, in the order they ran; the short ones are left out."""
    titles = f"{'us':>9} {'GHz':>5} {'issue':>6} {'pipe':>6} {'L1':>5} {'L2':>5} {'DRAM':>5}"
    lines = [f"{titles}  kernel: what limits it"]
    for one in profiles:
        if one.microseconds < SHORTEST:
            continue
        units = " ".join(f"{one.units[name]:5.0f}" for name in _UNITS)
        lines.append(
            f"{one.microseconds:9.1f} {one.gigahertz:5.2f} {one.issue:6.0f} {one.pipe[1]:6.0f} {units}  "
            f"{one.name}: {one.limit()}"
        )
    return lines


def profile(rows: int, folder: Path) -> list[Profile]:
    """Runs ncu; RuntimeError with its last words where it fails."""
    report = folder / f"{rows}.ncu-rep"
    ncu = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
    sections = [word for section in SECTIONS for word in ("--section", section)]
    record = [ncu, "--profile-from-start", "off", "--kernel-name-base", "demangled", "-k", KERNELS,
              "-c", str(MOST), *sections, "-f", "-o", str(report),
              sys.executable, "-m", "evidence.profiled", str(rows)]  # fmt: skip
    try:
        ran = subprocess.run(record, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"{ncu} cannot be run: {error.strerror}") from None
    if ran.returncode != 0 or not report.exists():
        raise RuntimeError((ran.stdout + ran.stderr).strip()[-500:] or "ncu wrote no report")
    pages = [
        subprocess.run([ncu, "-i", str(report), "--csv", "--page", page], capture_output=True, text=True,
                       check=True).stdout.splitlines()
        for page in ("details", "raw")
    ]  # fmt: skip
    return parse(*pages)


def record(run: dict[str, Any], quick: bool = False) -> str:
    """The whole text. RuntimeError where ncu is missing or may not read the counters."""
    lines = [f"{key}: {value}" for key, value in run.items()]
    lines += [
        "",
        "Nsight Compute, one kernel at a time at its own clock: times here are not those of a step. Columns:",
        "percent of the peak of issue slots, of the busiest pipe, of L1, L2 and DRAM (nvjet: the library).",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for rows in SHAPES[:1] if quick else SHAPES:
            what = f"head, {rows} rows" if rows > 0 else "logp, 4096 rows of 131072 in bf16, then fp32"
            print(f"  profile of: {what}", flush=True)
            lines += ["", what, *table(profile(rows, Path(folder)))]
    return "\n".join(lines) + "\n"
