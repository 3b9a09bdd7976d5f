"""Records of heads, judged: whole, every count 0, and the bits of this machine's CPU."""

import base64
import zlib
from typing import Any

import numpy
import torch

from .head_cases import Case
from .heads import BATCHES, RESULTS, SAMPLES, columns, digests, sample, sha256

_COUNTS = ("rows_that_differ_from_the_cpu", "rows_that_differ_on_the_gpu")


def counted(case: Case) -> list[str]:
    """What every GPU counts; the library's product is not everywhere."""
    half = case.rows * case.vocab
    budgets = [] if case.entropy else [f"memory {memory}" for memory in ("recompute", half, "save")]
    return [
        *(f"batch of {size}" for size in BATCHES if size < case.rows),
        "forward repeated",
        "repeated",
        f"leading shape [3, {min(300, case.rows // 3 * 3) // 3}]",
        "a random third of the rows, listed",
        "a random third of the rows, gathered",
        "packed against padded, grad_weight",
        "half masked",
        "half masked, rows that take no part",
        "half masked against packed, grad_weight",
        *(name + end for name in budgets for end in ("", ", training against rollout")),
    ]


def _statistics(record: dict[str, Any], case: Case) -> dict[str, torch.Tensor]:
    """By name, those that are whole."""
    wide, found = case.dtype == "float64", {}
    for name in (name for name in RESULTS if name.startswith("row_")):
        dtype = torch.int64 if "sum" in name else torch.float64 if wide else torch.float32
        shape = (case.rows, 2) if "sum" in name and wide else (case.rows,)
        try:
            text = zlib.decompress(base64.b64decode(record["statistics"][name]))
            found[name] = torch.from_numpy(numpy.frombuffer(text, numpy.uint8).copy()).view(dtype).view(shape)
        except (KeyError, TypeError, ValueError, zlib.error, RuntimeError):
            continue
    return found


def lacking(record: dict[str, Any]) -> list[str]:
    """One line that says what a record lacks which was written to its end; none when it is whole."""
    try:
        case = Case(**record["case"])
    except (KeyError, TypeError):
        return ["a record of a head lacks its case"]
    rows = (*RESULTS, "grad_hidden")
    wanted = dict(zip(_COUNTS, ((*rows, "grad_weight"), counted(case)), strict=True))
    lacks = [
        f"{part}, {name}"
        for part, names in wanted.items()
        for name in names
        if not isinstance(record.get(part, {}).get(name), int)
    ]
    samples, of_all = record.get("samples", {}), record.get("sha256", {})
    lacks += [f"samples, {name}" for name in rows if len(samples.get(name, ())) != SAMPLES]
    lacks += [f"sha256, {name}" for name in rows if name not in of_all]
    if case.kept:
        whole = _statistics(record, case)
        lacks += [f"statistics, {n}" for n in RESULTS if n.startswith("row_") and n not in whole]
        lacks += ["columns"] if len(record.get("columns", ())) != case.few + SAMPLES else []
    return [f"{case.name} lacks {'; '.join(lacks)}"] if lacks else []


def problems(record: dict[str, Any]) -> list[str]:
    """Every count that is not 0, or what is missing."""
    counts = {name: count for part in _COUNTS for name, count in record.get(part, {}).items()}
    return lacking(record) or [
        f"{record['case']['name']}: {count} rows differ, {what}" for what, count in counts.items() if count
    ]


def differing_samples(record: dict[str, Any]) -> list[str]:
    """Sampled rows and columns for which this machine's CPU gives other bits than were recorded."""
    if found := lacking(record):
        return found
    case = Case(**record["case"])
    ours = {name: digests(value) for name, value in sample(case, "cpu").items()}
    theirs = dict(record["samples"])
    if case.kept:
        statistics = _statistics(record, case)
        found += [
            f"{case.name} {name}: not the statistics of the recorded digest"
            for name, value in statistics.items()
            if sha256(value) != record["sha256"][name]
        ]
        ours["columns"], theirs["columns"] = digests(columns(case, statistics, "cpu")), record["columns"]
    return found + [
        f"{case.name} {name} {at}: other bits than recorded"
        for name, mine in ours.items()
        for at, (left, right) in enumerate(zip(theirs[name], mine, strict=True))
        if left != right
    ]
