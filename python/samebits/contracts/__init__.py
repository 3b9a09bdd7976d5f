"""Tolerances as data: `tolerance.json` beside this file, its schema in docs/tolerance.md, and the loader.

from samebits.contracts import load
cell = load().profile("derived").cell("forward_accuracy", "logprob", "logp", "bf16")
cell.atol, cell.rtol, cell.terms, cell.source
"""

from samebits.contracts.loader import (
    CLASSES,
    DTYPES,
    JUDGMENTS,
    PACKAGED,
    Cell,
    Contract,
    ContractError,
    Profile,
    load,
)

__all__ = [
    "CLASSES",
    "DTYPES",
    "JUDGMENTS",
    "PACKAGED",
    "Cell",
    "Contract",
    "ContractError",
    "Profile",
    "load",
]
