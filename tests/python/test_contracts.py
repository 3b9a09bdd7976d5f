"""tolerance.json and its loader: each cell has a number and a source; a bad file is refused by its place."""

import copy
import json
import math

import pytest

from samebits.check.op.operators import OPERATORS
from samebits.contracts import CLASSES, DTYPES, JUDGMENTS, PACKAGED, ContractError, load
from samebits.contracts.expression import Expression

CONTRACT = load()


def test_the_packaged_profiles_are_complete():
    assert list(CONTRACT.profiles) == ["derived", "field", "torch"]
    for profile in CONTRACT.profiles.values():
        found = {(judgment, kind, dtype) for judgment, kind, _, dtype in profile.cells}
        assert found == {(j, k, d) for j in JUDGMENTS for k in CLASSES for d in DTYPES}
        for cell in profile.cells.values():
            assert len(cell.source) > 20 and (
                cell.bits or cell.atol or cell.rtol or cell.terms or "bit" in cell.source
            )


@pytest.mark.parametrize("profile", CONTRACT.profiles)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_output_and_gradient_has_a_cell(profile, name):
    operator, profile = OPERATORS[name], CONTRACT.profile(profile)
    for judgment in JUDGMENTS:
        results = operator.outputs if judgment.startswith("forward") else operator.gradients
        for kind, cell in results.values():
            for dtype in operator.dtypes:
                found = profile.cell(judgment, kind, cell, dtype)
                assert found.bits == judgment.endswith("invariance")


def test_no_derived_cell_is_without_use():
    used = {
        ("forward_accuracy" if results is operator.outputs else "gradient_accuracy", *place)
        for operator in OPERATORS.values()
        for results in (operator.outputs, operator.gradients)
        for place in results.values()
    }
    found = {key[:3] for key in CONTRACT.profile("derived").cells if key[0].endswith("accuracy")}
    assert found == used


def test_the_numbers_are_what_their_derivations_say():
    cell = CONTRACT.profile("derived").cell("forward_accuracy", "logprob", "logp", "bf16")
    expected = 64 * 2**-24 * math.sqrt(2688) + 9 * 2**-23 * 2688 / 16
    assert cell.coefficient("carried", 2688) == pytest.approx(expected, rel=1e-12)
    assert cell.coefficient("carried", 2688) == pytest.approx(3.8e-4, rel=0.01)  # as its source says
    assert cell.coefficient("spread", 2688) == 0.0
    # Segments of 8192: drifts of two of them add as the parts of a sum of squares do.
    short, long = (cell.coefficient("carried", n) for n in (8192, 16384))
    assert long == pytest.approx(short * math.sqrt(2), rel=1e-12)


def test_the_profile_of_the_field_has_its_values():
    field = CONTRACT.profile("field")
    cell = field.cell("gradient_accuracy", "logprob", "hidden", "bf16")
    assert (cell.atol, cell.rtol) == (0.05, 0.0)
    cell = field.cell("gradient_accuracy", "reduction", "sum", "bf16")
    assert (cell.atol, cell.rtol) == (0.1, 0.02)


def test_a_cell_that_is_not_there_is_named():
    with pytest.raises(ContractError, match=r"derived: has no cell forward_accuracy\.gemm\.quotient\.bf16"):
        CONTRACT.profile("derived").cell("forward_accuracy", "gemm", "quotient", "bf16")
    with pytest.raises(
        ContractError, match=r"profile loose: is not in tolerance\.json; may be derived, field"
    ):
        CONTRACT.profile("loose")


LOGP = "profiles.derived.forward_accuracy.logprob.logp"


def changed(place: str, value) -> dict:
    """The packaged file with another value at one place; None removes it."""
    data = copy.deepcopy(json.loads(PACKAGED.read_text()))
    *way, last = place.split(".")
    at = data
    for key in way:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return data


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("schema", "v0", "schema: is \"v0\"; must be 'samebits.tolerance.v1'"),
        ("extra", 1, "the whole: has 'extra'; may have schema, about"),
        ("units.bf16", None, "units: has no 'bf16'"),
        ("constants.u", {"value": 1, "source": "x"}, "constants.u: has a name that means something else"),
        ("constants.sum32.source", " ", "constants.sum32.source: is \" \"; must be a text that is not empty"),
        ("profiles", {}, "profiles: is empty"),
        ("profiles.derived.forward_accuracy.gemm", None, "profiles.derived.forward_accuracy: has no 'gemm'"),
        ("profiles.derived.forward_accuracy.gemm", {}, "forward_accuracy.gemm: is empty; must have a cell"),
        (f"{LOGP}.source", None, f"{LOGP}: has no 'source'"),
        (f"{LOGP}.fp16", None, f"{LOGP}: has no 'fp16'"),
        (f"{LOGP}.bf16", 0.05, f"{LOGP}.bf16: is 0.05; must be an object"),
        (f"{LOGP}.bf16.atol", None, f"{LOGP}.bf16: has no 'atol'"),
        (f"{LOGP}.bf16.atol", -1, f"{LOGP}.bf16.atol: is '-1', which is negative"),
        (f"{LOGP}.bf16.atol", "1e400", f"{LOGP}.bf16.atol: is '1e400', which is inf"),
        (f"{LOGP}.bf16.atol", True, f"{LOGP}.bf16.atol: is true; must be a number or arithmetic"),
        (f"{LOGP}.bf16.rtol", "2 * v", f"{LOGP}.bf16.rtol: is '2 * v', and there is no v; may be u"),
        (f"{LOGP}.bf16.rtol", "open('x')", "has \"open('x')\" in it; may be numbers, names"),
        (f"{LOGP}.bf16.rtol", "1 +", "is '1 +', which is no arithmetic"),
        (f"{LOGP}.bf16.terms", {"size": 1}, f"{LOGP}.bf16.terms: has 'size'; may have spread"),
        (f"{LOGP}.bf16.terms", {"spread": "-depth"}, "terms.spread: is '-depth', which is negative"),
        (f"{LOGP}.bf16.terms", {"spread": "1 / (depth - 1)"}, "which has no value"),
        (f"{LOGP}.bf16.terms", {"spread": "2 ** 9999"}, "which has no value"),
        ("profiles.derived.forward_invariance.gemm.*.bf16", {"atol": 0, "rtol": 0}, "must be 'bits'"),
    ],
)  # fmt: skip
def test_a_bad_file_is_refused_by_its_place(tmp_path, place, value, said):
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(changed(place, value)))
    with pytest.raises(ContractError) as error:
        load(path)
    assert str(error.value).startswith("mine.json: ") and said in str(error.value)


@pytest.mark.parametrize(("text", "said"), [("{", "is no JSON"), ("[1]", "must be an object"),
                                            ('{"a": 1, "a": 2}', "has 'a' twice")])  # fmt: skip
def test_what_is_no_object_is_refused(tmp_path, text, said):
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(ContractError, match=said):
        load(path)


def test_arithmetic_is_evaluated_and_nothing_else():
    assert Expression("2 * min(3, depth) ** 2 - sqrt(4) / 2").value({"depth": 5.0}) == 17.0
    assert Expression(0.25).value({}) == 0.25
    for text in (
        "__import__('os')",
        "u.real",
        "[1]",
        "'a'",
        "1 if u else 2",
        "lambda: 1",
        "u(1)",
        "1j",
        "True",
    ):
        with pytest.raises(ValueError, match=r"may be numbers|no arithmetic"):
            Expression(text)
