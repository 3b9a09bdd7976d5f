"""Reading of `tolerance.json`: everything is checked when it is loaded, so that a cell can be relied upon."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from samebits.contracts.expression import Expression

SCHEMA = "samebits.tolerance.v1"
PACKAGED = Path(__file__).with_name("tolerance.json")
"""The file that comes with the package."""
JUDGMENTS = ("forward_accuracy", "forward_invariance", "gradient_accuracy", "gradient_invariance")
CLASSES = ("elementwise", "reduction", "logprob", "gemm")
DTYPES = ("fp64", "fp32", "bf16", "fp16")
BITS = "bits"  # a cell of an invariance
ANY = "*"  # stands for every output of a class
# What a term is multiplied by, element by element; docs/tolerance.md defines them.
SIZES = ("spread", "carried", "carried_target", "target", "probability", "scale", "argument")
# Names in expressions that the check gives values to.
VARIABLES = {"u": "half the distance of neighbours at 1 in the dtype", "depth": "addends of the sum"}


class ContractError(ValueError):
    """A file, or a request, that is not what the schema allows; the message says where and what may be."""


class Cell(NamedTuple):
    """What an output is held to: ``error <= atol + rtol * abs(exact) + sum of terms[size] * size``."""

    place: str
    """Where it stands in the file."""
    bits: bool
    """Raw bits are compared, and nothing else counts."""
    atol: float
    """Absolute."""
    rtol: float
    """Of the size of the exact value."""
    terms: Mapping[str, Expression]
    """By the name of a size."""
    source: str
    """Derivation or source of the numbers."""
    constants: Mapping[str, float | Expression]
    """What the names in the terms mean."""

    def coefficient(self, size: str, depth: int) -> float:
        """What that size is multiplied by, in a sum of `depth` addends; 0 when the cell has no such term."""
        if size not in self.terms:
            return 0.0
        return _evaluate(self.terms[size], self.constants, depth)

    def data(self) -> dict:
        """JSON-ready."""
        if self.bits:
            return {"compare": BITS, "source": self.source}
        terms = {name: expression.text for name, expression in self.terms.items()}
        return {"atol": self.atol, "rtol": self.rtol, "terms": terms, "source": self.source}


class Profile(NamedTuple):
    """A complete set of cells."""

    name: str
    about: str
    """Whose numbers they are."""
    cells: Mapping[tuple[str, str, str, str], Cell]
    """By judgment, class, output (or "*") and dtype."""

    def cell(self, judgment: str, kind: str, output: str, dtype: str) -> Cell:
        """The cell of one output or gradient.

        Args:
            judgment: one of JUDGMENTS.
            kind: one of CLASSES.
            output: the name of an output or gradient of the class.
            dtype: one of DTYPES, that of the operands.

        Raises:
            ContractError: there is none.
        """
        for name in (output, ANY):
            found = self.cells.get((judgment, kind, name, dtype))
            if found is not None:
                return found
        raise ContractError(f"profile {self.name}: has no cell {judgment}.{kind}.{output}.{dtype}")


class Contract(NamedTuple):
    """A tolerance file."""

    path: str
    profiles: Mapping[str, Profile]

    def profile(self, name: str) -> Profile:
        """The profile of that name.

        Raises:
            ContractError: there is none; lists those that are.
        """
        if name not in self.profiles:
            raise ContractError(f"profile {name}: is not in {self.path}; may be {', '.join(self.profiles)}")
        return self.profiles[name]


def load(path: str | Path = PACKAGED) -> Contract:
    """Read and check a tolerance file.

    Args:
        path: a file of the schema that docs/tolerance.md describes.

    Raises:
        ContractError: names the place in the file, what stands there and what may.
        OSError: it cannot be read.
    """
    path = Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_no_duplicates)
    except ContractError as error:
        raise ContractError(f"{path.name}: {error}") from None
    except ValueError as error:
        raise ContractError(f"{path.name}: is no JSON: {error}") from None
    return _Reader(path.name).contract(data)


def _no_duplicates(pairs: list[tuple]) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ContractError(f"has {next(n for n in names if names.count(n) > 1)!r} twice in one object")
    return found


def _evaluate(expression: Expression, constants: Mapping[str, float | Expression], depth: int) -> float:
    values = {"depth": float(depth)}
    for name, constant in constants.items():  # each may use those before it
        values[name] = constant.value(values) if isinstance(constant, Expression) else constant
    return expression.value(values)


class _Reader:
    def __init__(self, file: str):
        self.file = file

    def fail(self, place: str, problem: str):
        raise ContractError(f"{self.file}: {place or 'the whole'}: {problem}")

    def object(self, data, place: str, required=(), optional=(), any_key: bool = False) -> dict:
        """`data` itself, when it is an object that has the required keys and none that may not be."""
        if not isinstance(data, dict):
            self.fail(place, f"is {json.dumps(data)[:60]}; must be an object")
        for key in required:
            if key not in data:
                self.fail(place, f"has no {key!r}")
        for key in data:
            if not any_key and key not in (*required, *optional):
                self.fail(place, f"has {key!r}; may have {', '.join((*required, *optional))}")
        return data

    def text(self, data, place: str) -> str:
        if not isinstance(data, str) or not data.strip():
            self.fail(place, f"is {json.dumps(data)[:60]}; must be a text that is not empty")
        return data

    def expression(self, data, place: str, names) -> Expression:
        if isinstance(data, bool) or not isinstance(data, str | int | float):
            self.fail(place, f"is {json.dumps(data)[:60]}; must be a number or arithmetic")
        try:
            found = Expression(data)
        except ValueError as error:
            self.fail(place, str(error))
        for name in sorted(found.names.difference(names)):
            self.fail(place, f"is {found.text!r}, and there is no {name}; may be {', '.join(names)}")
        return found

    def number(self, data, place: str, values: Mapping[str, float]) -> float:
        expression = self.expression(data, place, values)
        try:
            number = expression.value(values)
        except ValueError as error:
            self.fail(place, str(error))
        if number < 0:
            self.fail(place, f"is {expression.text!r}, which is negative")
        return number

    def contract(self, data) -> Contract:
        self.object(data, "", ("schema", "about", "units", "constants", "profiles"))
        if data["schema"] != SCHEMA:
            self.fail("schema", f"is {json.dumps(data['schema'])[:60]}; must be {SCHEMA!r}")
        self.text(data["about"], "about")
        units = self.object(data["units"], "units", DTYPES)
        units = {dtype: self.number(units[dtype], f"units.{dtype}", {}) for dtype in DTYPES}
        constants: dict[str, Expression] = {}
        for name, entry in self.object(data["constants"], "constants", any_key=True).items():
            place = f"constants.{name}"
            if not name.isidentifier() or name in VARIABLES:
                self.fail(place, f"has a name that means something else; {', '.join(VARIABLES)} are taken")
            self.object(entry, place, ("value", "source"))
            self.text(entry["source"], f"{place}.source")
            names = (*VARIABLES, *constants)
            constants[name] = self.expression(entry["value"], f"{place}.value", names)
        profiles = self.object(data["profiles"], "profiles", any_key=True)
        if not profiles:
            self.fail("profiles", "is empty; must have at least one")
        read = {n: self.profile(n, p, units, constants) for n, p in profiles.items()}
        return Contract(self.file, read)

    def profile(self, name: str, data, units: dict, constants: dict) -> Profile:
        place = f"profiles.{name}"
        self.object(data, place, ("about", *JUDGMENTS))
        cells = {}
        for judgment in JUDGMENTS:
            self.object(data[judgment], f"{place}.{judgment}", CLASSES)
            for kind in CLASSES:
                outputs = data[judgment][kind]
                if not self.object(outputs, f"{place}.{judgment}.{kind}", any_key=True):
                    self.fail(f"{place}.{judgment}.{kind}", "is empty; must have a cell")
                for output, entry in outputs.items():
                    at = f"{place}.{judgment}.{kind}.{output}"
                    self.object(entry, at, ("source", *DTYPES))
                    source = self.text(entry["source"], f"{at}.source")
                    for dtype in DTYPES:
                        known = {"u": units[dtype], **constants}
                        key = judgment, kind, output, dtype
                        cells[key] = self.cell(entry[dtype], f"{at}.{dtype}", judgment, source, known)
        return Profile(name, self.text(data["about"], f"{place}.about"), cells)

    def cell(self, data, place: str, judgment: str, source: str, known: dict) -> Cell:
        if judgment.endswith("invariance"):
            if data != BITS:
                self.fail(place, f"is {json.dumps(data)[:60]}; must be {BITS!r}: invariance is of raw bits")
            return Cell(place, True, 0.0, 0.0, {}, source, {})
        self.object(data, place, ("atol", "rtol"), ("terms",))
        unit = {"u": known["u"]}
        atol, rtol = (self.number(data[key], f"{place}.{key}", unit) for key in ("atol", "rtol"))
        terms = {}
        for size, value in self.object(data.get("terms", {}), f"{place}.terms", optional=SIZES).items():
            terms[size] = self.expression(value, f"{place}.terms.{size}", ("depth", *known))
            for depth in (1, 2**20):  # grows with the depth, if at all: these two show a mistake
                try:
                    negative = _evaluate(terms[size], known, depth) < 0
                except ValueError as error:
                    self.fail(f"{place}.terms.{size}", str(error))
                if negative:
                    self.fail(f"{place}.terms.{size}", f"is {terms[size].text!r}, which is negative")
        return Cell(place, False, atol, rtol, terms, source, known)
