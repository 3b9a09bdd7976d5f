"""Recorded sample rows against this machine's CPU, and whether the sources have moved on since."""

from pathlib import Path
from typing import Any

from . import bits, machine, products, records
from .inputs import Case


def recorded_cases(folder: Path) -> list[dict[str, Any]]:
    """The records of one device."""
    return records.read(folder / "bits.json")["cases"]


def differing_samples(record: dict[str, Any]) -> list[str]:
    """Every field of every sample row that the CPU does not give; empty when all bits agree."""
    case = Case(**record["case"])
    samples = record["samples"]
    found = []
    for theirs, ours in zip(samples, bits.sample(case, [s["row"] for s in samples], "cpu"), strict=True):
        for name in {*theirs, *ours}:
            if theirs.get(name) != ours.get(name):
                where = f"{case.name} row {theirs['row']} {name}"
                found.append(f"{where}: recorded {theirs.get(name)}, the CPU gives {ours.get(name)}")
    return found


def recorded_products(folder: Path) -> list[dict[str, Any]]:
    """The records of one device's products."""
    return records.read(folder / "products.json")["cases"]


def differing_product_samples(record: dict[str, Any]) -> list[str]:
    """Every sampled row of a product that the CPU does not give."""
    case = products.ProductCase(**record["case"])
    ours = products.sample(case, "cpu")
    return [
        f"{case.name}, sampled row {at}: recorded {theirs}, the CPU gives {mine}"
        for at, (theirs, mine) in enumerate(zip(record["sample"], ours, strict=True))
        if theirs != mine
    ]


def staleness(folder: Path) -> str:
    """Says so when the evidence was taken from other sources than those of this tree; else empty."""
    digest, stale = machine.source_digest(), []
    for path in sorted(folder.glob("*.json")):
        if records.read(path).get("run", {}).get("source_sha256") != digest:
            stale.append(path.name)
    profiles = folder / "profiles.txt"
    if profiles.exists() and f"source_sha256: {digest}" not in profiles.read_text().splitlines():
        stale.append(profiles.name)
    return f"{folder.name}: {', '.join(stale)} of older sources; run make gpu-evidence again" if stale else ""
