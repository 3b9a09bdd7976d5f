"""The clock and the contestants of GPU evidence, on what a CPU can do of them."""

import functools
import json
import sys
import time
from pathlib import Path

import pytest
import torch

from samebits.bench.cases import Case, Contestant

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from evidence import __main__ as command
from evidence import head_timings, records, timings, turns

CASE = Case("logp", "fwd", 2, 8, 0, "fp32", "cpu", 1, False)


def test_medians_are_milliseconds_and_leave_out_who_fails(capsys):
    def broken():
        raise RuntimeError("no kernel image\nmore")

    found = timings.medians({"sum": lambda: torch.ones(9).sum(), "broken": broken}, "cpu", rounds=3)
    assert list(found) == ["sum"] and 0 < found["sum"] < 1000
    assert capsys.readouterr().out == "  broken does not run here: RuntimeError: no kernel image\n"


def test_only_other_packages_that_are_installed_take_part(capsys, monkeypatch):
    monkeypatch.setitem(timings.peers.DISTRIBUTIONS, "json", "json")
    contestants = (
        Contestant("torch", lambda: torch.sum),
        Contestant("missing", lambda: torch.sum, "no_such_package"),
        Contestant("theirs", lambda: torch.sum, "json"),
        Contestant("refuses", lambda: torch.sum, "json", refusal=lambda case: f"not for {case.dtype}"),
    )
    monkeypatch.setitem(timings.peers.DISTRIBUTIONS, "no_such_package", "no-such-package")
    assert timings.installed(contestants, CASE) == {"theirs": torch.sum}
    assert capsys.readouterr().out.splitlines() == [
        "  missing does not run here: not installed: pip install no-such-package",
        "  refuses does not run here: not for fp32",
    ]


def test_a_step_takes_a_loss_of_each_token_or_their_sum():
    hidden, weight = torch.ones(3, 4, requires_grad=True), torch.ones(5, 4, requires_grad=True)
    seen = []
    hidden.register_hook(lambda grad: seen.append(grad.clone()))
    upstream = torch.ones(3)
    head_timings._step(hidden, weight, lambda: (hidden @ weight.t()).sum(1), upstream)()
    head_timings._step(hidden, weight, lambda: (hidden @ weight.t()).sum(), upstream)()
    assert torch.equal(*seen) and hidden.grad is None and weight.grad is None


def test_who_fails_at_the_first_call_is_kept_with_the_reason(capsys):
    def broken():
        raise ValueError("no such tile")

    def slow():
        while True:
            try:
                time.sleep(0.01)
            except Exception:  # what a tuner does with a kernel that fails
                pass

    calls = {"broken": broken, "slow": slow, "ones": lambda: torch.ones(3)}
    taken = turns.take_turns(calls, "cpu", rounds=2, limit=0.2)
    assert taken.not_run == {
        "broken": "ValueError: no such tile",
        "slow": "its first call takes more than 0.2 s",
    }
    assert list(taken.milliseconds) == list(taken.first_call_seconds) == ["ones"]
    assert "  slow does not run here: its first call takes more than 0.2 s\n" in capsys.readouterr().out


def test_a_limit_ends_with_its_block():
    with turns.within(0.02):
        pass
    time.sleep(0.05)
    with pytest.raises(turns.TooLong), turns.within(0.02):
        time.sleep(1)


def others(monkeypatch, **heads):
    """Heads of other packages by name, instead of those that exist."""
    monkeypatch.setitem(turns.peers.DISTRIBUTIONS, "json", "json")
    contestants = (
        Contestant(name, functools.partial(lambda f: f, f), "json", sign=-1) for name, f in heads.items()
    )
    monkeypatch.setattr(turns.peers, "OF_HEADS", tuple(contestants))


def theirs(x, w, ids):
    return torch.nn.functional.cross_entropy((x @ w.t()).float(), ids, reduction="none")


def misses_a_kernel(x, w, ids):
    raise RuntimeError("no kernel for this shape")


def test_a_line_has_every_contestant_or_the_reason_why_not(monkeypatch, capsys):
    others(monkeypatch, theirs=theirs, broken=misses_a_kernel, unwanted=theirs)
    setting = head_timings.Setting("cpu", 2, without=("unwanted",), seconds=0.0)
    line = head_timings.timed(head_timings.Shape(5, 16, 70), setting, masked=True, memory=True)
    assert line["not_run"] == {
        "unwanted": "left out (--without)",
        "broken, forward": "RuntimeError: no kernel for this shape",
        "broken, both": "RuntimeError: no kernel for this shape",
    }
    for times in (line["forward_milliseconds"], line["forward_and_backward_milliseconds"]):
        assert times["theirs"] > 0 and "broken" not in times and "unwanted" not in times
    assert (
        "theirs" in line["first_call_seconds"]["forward"] and "theirs" in line["first_call_seconds"]["both"]
    )
    assert set(line["versions"]) == {"theirs", "broken"}
    assert set(line["largest_difference_of_forward"]) == {"theirs"}
    assert line["largest_difference_of_forward"]["theirs"] < 0.01
    bounds = ["four bare products", "four bare products in a row"]
    assert list(line["samebits_over_others"]["recompute"])[-2:] == bounds
    step = line["forward_and_backward_milliseconds"]
    assert step["bare products: four in a row"] > 0 and step["bare products: three in a row"] > 0
    assert json.loads(json.dumps(line)) == line
    capsys.readouterr()


def test_ratios_are_of_samebits_over_the_others_and_the_bare_products():
    step = {"bare product: logits": 1.0, "bare product: grad_hidden": 2.0, "bare product: grad_weight": 3.0,
            "bare products: three in a row": 8.0, "bare products: four in a row": 10.0,
            "samebits, recompute": 14.0, "samebits, saved P": 9.0, "theirs": 10.0}  # fmt: skip
    assert head_timings.over({"samebits": 3.0, "theirs": 2.0}, step) == {
        "forward": {"theirs": 1.5},
        "recompute": {"theirs": 1.4, "four bare products": 2.0, "four bare products in a row": 1.4},
        "saved P": {"theirs": 0.9, "three bare products": 1.5, "three bare products in a row": 1.125},
    }
    del step["bare products: four in a row"]
    assert list(head_timings.over({}, step)["recompute"]) == ["theirs", "four bare products"]
    del step["samebits, saved P"], step["bare product: logits"]
    assert head_timings.over({}, step) == {"forward": {}, "recompute": {"theirs": 1.4}, "saved P": {}}


def test_products_in_a_row_are_those_of_a_step():
    head = head_timings.Head(head_timings.Shape(5, 16, 70), "cpu")
    room = [torch.empty(5, 70, dtype=torch.bfloat16)]
    calls = head.bare_products(room)
    three, four = (calls[f"bare products: {count} in a row"]() for count in ("three", "four"))
    x, w = head.x, head.w
    logits = x @ w.t()
    assert torch.equal(room[0], logits)
    for products in (three, four[1:]):
        for made, wanted in zip(products, (logits, logits @ w, logits.t() @ x), strict=True):
            assert torch.equal(made, wanted)
    assert len(four) == 4 and four[0] is four[1] is room[0]  # into buffers that exist
    assert all(one is other for one, other in zip(three, four[1:], strict=True))


@pytest.fixture
def group(monkeypatch):
    """One of two shapes, whose second fails."""

    def line(shape, setting):
        if shape.rows == 2:
            raise KeyboardInterrupt
        return {"rows": shape.rows, "rounds": setting.rounds, "without": setting.without}

    shapes = (head_timings.Shape(1), head_timings.Shape(2))
    monkeypatch.setitem(head_timings.GROUPS, "mine", head_timings.Group(line, shapes, 4))
    monkeypatch.setitem(head_timings.GROUPS, "first", head_timings.Group(line, shapes[:1], 4))


def test_only_the_groups_asked_for_are_taken_and_others_stay(group):
    tables = {"large": ["kept"]}
    seen = []
    head_timings.record("cpu", False, ["first"], ("QuACK",), None, lambda t: seen.append(str(t)), tables)
    assert tables == {
        "large": ["kept"],
        "unfinished": {},
        "first": [{"rows": 1, "rounds": 4, "without": ("QuACK",)}],
    }
    assert len(seen) == 2 and "1 x 2688 x 131072" in seen[0]


def test_only_the_rows_asked_for_are_taken_and_other_lines_stay(monkeypatch):
    shapes = tuple(map(head_timings.Shape, (1, 2, 3)))
    group = head_timings.Group(lambda shape, setting: {**shape._asdict(), "taken": "now"}, shapes)
    monkeypatch.setitem(head_timings.GROUPS, "mine", group)
    monkeypatch.setitem(head_timings.GROUPS, "other", group)
    tables = {"mine": [{"rows": 3, "taken": "before"}, {"rows": 2, "taken": "before"}]}
    head_timings.record("cpu", False, ["mine"], tables=tables, rows=[2])
    assert [(line["rows"], line["taken"]) for line in tables["mine"]] == [(2, "now"), (3, "before")]
    assert tables["unfinished"] == {"mine": "1 x 2688 x 131072"}
    head_timings.record("cpu", False, ["mine", "other"], tables=tables, rows=[1, 3])
    assert [line["taken"] for line in tables["mine"]] == ["now"] * 3
    assert tables["unfinished"] == {"other": "2 x 2688 x 131072"}
    head_timings.record("cpu", False, ["other"], tables=tables, rows=[9])
    assert [line["rows"] for line in tables["other"]] == [1, 3]


def test_a_group_that_is_cut_short_keeps_its_lines_and_says_where(group):
    written = []
    with pytest.raises(KeyboardInterrupt):
        head_timings.record("cpu", False, ["mine"], write=lambda t: written.append(json.loads(json.dumps(t))))
    assert written[-1]["unfinished"] == {"mine": "2 x 2688 x 131072"}
    assert [line["rows"] for line in written[-1]["mine"]] == [1]


def test_groups_of_another_run_are_not_kept(tmp_path):
    file = tmp_path / "head_timings.json"
    assert records.kept(file, {"device": "a"}) == {}
    file.write_text(json.dumps({"run": {"device": "a"}, "large": [{"rows": 1}]}))
    assert records.kept(file, {"device": "a"}) == {"large": [{"rows": 1}]}
    assert records.kept(file, {"device": "b"}) == {}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"run": {"device": "a"}, "large": [{"ro', "cannot be read (Unterminated string"),
        ("", "cannot be read (Expecting value"),
        ("[]", "is a list; must be an object"),
        ('{"run": {"device": "a"}, "large": [{}]}', "group large has a line without rows"),
        ('{"run": {"device": "a"}, "large": [3]}', "group large has a line without rows"),
    ],
)
def test_a_torn_file_is_refused_in_one_line_before_anything_is_measured(
    tmp_path, monkeypatch, capsys, content, says
):
    monkeypatch.setattr(command._native, "cuda_problem", "")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(command.machine, "slug", lambda device: "")
    monkeypatch.setattr(command.machine, "describe", lambda device: {"device": "a"})
    monkeypatch.setattr(command.head_timings, "record", None)
    file = tmp_path / "head_timings.json"
    file.write_text(content)
    monkeypatch.setattr(sys, "argv", ["evidence", "--only", "head_timings", "--out", str(tmp_path)])
    assert command.main() == 2
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{file}: ") and says in line and line.endswith("take it anew, or remove it")
    assert file.read_text() == content


def test_more_memory_than_is_promised_is_a_problem():
    line = {"rows": 9, "forward_extra_bytes": 8, "forward_bytes_allowed": 8,
            "backward_extra_bytes": 7, "backward_bytes_allowed": 6}  # fmt: skip
    assert head_timings.problems({"memory": [line], "large": [{"forward_extra_bytes": 1}]}) == [
        "linear_logp, backward of 9 rows: 7 bytes, 6 are promised"
    ]


def test_every_group_runs_the_shapes_it_names():
    assert [shape.rows for shape in head_timings.GROUPS["small"].shapes] == [64, 128, 256, 512]
    assert [shape.rows for shape in head_timings.GROUPS["large"].shapes] == [2048, 4096, 8192, 16384]
    assert {shape.size for shape in head_timings.GROUPS["shapes"].shapes} == {4096, 7168}
    assert head_timings.GROUPS["memory"].shapes == (head_timings.Shape(65536),)
