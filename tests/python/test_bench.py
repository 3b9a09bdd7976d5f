"""`python -m samebits.bench`: who is found, turns, JSON, tables, pictures, and what is refused."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from samebits.bench import cli, figure, measure, peers, table
from samebits.bench.cases import Case, Contestant
from samebits.bench.cli import main
from samebits.bench.operators import OPERATORS
from samebits.bench.timing import COLD_BYTES, Clock, interleaved, peak_bytes, summary, warm_up

SMALL = (
    "--tokens",
    "3",
    "--vocab",
    "64",
    "--hidden",
    "32",
    "--dtype",
    "fp32",
    "--rounds",
    "5",
    "--threads",
    "1",
)


def case(op: str = "logp", mode: str = "fwd", **changes) -> Case:
    options = {"op": op, "mode": mode, "tokens": 3, "vocab": 64, "hidden": 32, "dtype": "fp32",
               "device": "cpu", "threads": 1, "cold": False}  # fmt: skip
    return Case(**options | changes)


def measured(op: str = "logp", mode: str = "fwd", wanted=None, **changes) -> dict:
    return measure.measure(case(op, mode, **changes), measure.Effort(0, 0, rounds=5), wanted)


def run_json(capsys, *options: str) -> dict:
    assert main([*options, *SMALL, "--json", "-"]) == 0
    printed = capsys.readouterr()
    assert "benchmark" in printed.err  # the progress bar goes elsewhere
    return json.loads(printed.out)


@pytest.mark.parametrize("mode", ["fwd", "bwd", "fwdbwd", "decode"])
@pytest.mark.parametrize("op", OPERATORS)
def test_every_operator_is_measured_in_every_mode(op, mode):
    found = measured(op, mode)
    names = {one["name"] for one in found["contestants"]}
    assert "samebits" in names and any(name.startswith("torch ") for name in names)
    assert found["rounds"] == 5 and found["inputs_in_a_row"] == (16 if mode == "decode" else 1)
    for one in found["contestants"]:
        taken = one["seconds"]
        assert 0 < taken["best"] <= taken["lower_quartile"] <= taken["median"] <= taken["worst"]
        assert one["times_the_fastest"] >= 1 and one["difference_from_samebits"] < 1e-3
        assert set(one["ceiling"]) <= set(found["ceilings"])
        if op != "call":
            assert one["rate"] == pytest.approx(found["work"] / taken["median"])
            assert one["share_of_ceiling"] == pytest.approx(one["ceiling_seconds"] / taken["median"])
    assert all(line["reason"] for line in found["not_run"])


def test_work_counts_what_must_be_moved_or_multiplied():
    assert measured("logp", "fwd")["work"] == 3 * 64 * 4
    assert measured("logp", "fwdbwd", dtype="bf16")["work"] == 3 * 3 * 64 * 2
    assert measured("linear_logp", "fwdbwd")["work"] == 3 * 2 * 3 * 64 * 32
    assert measured("embedding", "fwd")["work"] == 2 * 3 * 32 * 4


def test_a_step_that_recomputes_is_held_to_four_products():
    found = {one["name"]: one for one in measured("linear_logp", "fwdbwd")["contestants"]}
    assert sum(found["samebits"]["ceiling"].values()) == 3
    assert found["samebits recompute"]["ceiling"] == {"product": 2, "grad_hidden": 1, "grad_weight": 1}


def test_contestants_take_turns_and_everybody_goes_first():
    order = []
    calls = {name: lambda n=name: order.append(n) for name in "abc"}
    samples = interleaved(calls, Clock(torch.device("cpu"), cold=False), rounds=3)
    assert "".join(order) == "abcbcacab"
    assert {name: len(taken) for name, taken in samples.items()} == {"a": 3, "b": 3, "c": 3}
    warm_up(calls, Clock(torch.device("cpu"), cold=False), seconds=0)
    assert "".join(order[9:]) == "abc"


def test_only_a_gpu_is_kept_hot_and_a_cpu_stays_cold(monkeypatch):
    read = []
    monkeypatch.setattr(torch.Tensor, "amax", lambda other: read.append(other.nbytes))
    clock = Clock(torch.device("cpu"), cold=True, hot=60.0)
    begin = time.monotonic()
    assert clock(lambda: None) < 1 and time.monotonic() - begin < 30
    assert read == [COLD_BYTES]


def test_a_summary_is_of_all_samples():
    assert summary([4.0, 1.0, 3.0, 2.0, 5.0]) == {
        "median": 3.0, "lower_quartile": 2.0, "upper_quartile": 4.0, "best": 1.0, "worst": 5.0,
    }  # fmt: skip
    assert summary([2.0])["median"] == 2.0


def test_the_peak_of_memory_is_seen():
    def call():
        return torch.ones(1 << 24).sum()  # 64 MiB

    peak = peak_bytes(call, torch.device("cpu"))
    assert peak is None or 60 * 2**20 < peak < 100 * 2**20


def with_contestant(monkeypatch, *more: Contestant) -> None:
    operator = OPERATORS["logp"]
    changed = type(operator)(**vars(operator) | {"contestants": (*operator.contestants, *more)})
    monkeypatch.setitem(OPERATORS, "logp", changed)


def reason_of(found: dict, name: str) -> str:
    return next(line["reason"] for line in found["not_run"] if line["name"] == name)


def test_a_contestant_that_computes_something_else_or_fails_is_left_out_with_the_reason(monkeypatch):
    def broken():
        raise ImportError("no such kernel\nmore")

    with_contestant(
        monkeypatch,
        Contestant("other", lambda: lambda logits, ids: logits[:, 0]),
        Contestant("nan", lambda: lambda logits, ids: logits[:, 0] * torch.nan),
        Contestant("broken", broken),
        Contestant("refuses", lambda: None, refusal=lambda case: "not today"),
    )
    found = measured()
    assert reason_of(found, "other").startswith("gives something else: ")
    assert reason_of(found, "nan") == "gives something else: inf of the largest value off"
    assert reason_of(found, "broken") == "ImportError: no such kernel"
    assert reason_of(found, "refuses") == "not today"


def test_whoever_compiles_for_too_long_is_left_out_with_the_reason(monkeypatch):
    def tuning(logits, ids):
        try:
            time.sleep(20)
        except TimeoutError:
            time.sleep(20)  # a package may swallow the error once
        return logits[:, 0]

    with_contestant(monkeypatch, Contestant("tunes", lambda: tuning))
    before, begun = signal.getsignal(signal.SIGALRM), time.monotonic()
    found = measure.measure(case(), measure.Effort(0, 0, rounds=5, patience=0.2))
    assert reason_of(found, "tunes") == "its first call took longer than 0.2 s"
    assert time.monotonic() - begun < 10 and signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_losses_and_sums_are_compared_with_their_sign(monkeypatch):
    with_contestant(
        monkeypatch,
        Contestant(
            "sum of losses",
            lambda: lambda logits, ids: torch.nn.functional.cross_entropy(logits, ids, reduction="sum"),
            sign=-1,
            summed=True,
        ),
    )
    for mode in ("fwd", "bwd", "fwdbwd"):
        one = measured("logp", mode, ["sum of losses"])["contestants"][1]
        assert one["name"] == "sum of losses" and one["difference_from_samebits"] < 1e-5


def test_an_overwriting_contestant_has_operands_of_its_own(monkeypatch):
    def overwriting():
        def call(logits, ids):
            values = peers.log_softmax_and_gather(logits, ids)
            logits.zero_()
            return values

        return call

    with_contestant(monkeypatch, Contestant("overwrites", overwriting, overwrites=True))
    assert {one["name"] for one in measured()["contestants"]} >= {"overwrites", "torch log_softmax"}


def test_packages_are_found_or_the_reason_is_told(monkeypatch):
    assert torch.__version__.startswith(peers.version("torch"))
    assert peers.version("no_such_package") is None
    missing = Contestant("x", lambda: None, "no_such_package")
    assert peers.unavailable(missing) == "not installed: pip install no_such_package"
    monkeypatch.setitem(peers.DISTRIBUTIONS, "no_such_package", "no-such-package")
    assert peers.unavailable(missing).endswith("pip install no-such-package")

    def broken():
        raise RuntimeError("libcuda.so.1 is missing")

    assert (
        peers.unavailable(Contestant("x", broken)) == "does not load: RuntimeError: libcuda.so.1 is missing"
    )
    assert peers.unavailable(OPERATORS["logp"].contestants[0]) == ""


def test_the_list_names_everybody(capsys):
    assert main(["--list", "--op", *OPERATORS]) == 0
    printed = capsys.readouterr().out
    for name in ("QuACK", "Liger SM90", "CCE", "torch.compile", "samebits recompute", "torch index_select"):
        assert name in printed
    assert "hidden @ weight.T" in printed and "on request" in printed


def test_json_says_what_was_measured_and_the_price(capsys):
    data = run_json(capsys, "--op", "logp", "linear_logp", "--mode", "fwd", "fwdbwd")
    assert data["schema"] == "samebits.bench.v1" and data["machine"]["torch"] == torch.__version__
    assert set(data["packages"]) == {"liger_kernel", "quack", "cut_cross_entropy"}
    assert [(c["op"], c["mode"]) for c in data["cases"]] == [
        ("logp", "fwd"), ("logp", "fwdbwd"), ("linear_logp", "fwd"), ("linear_logp", "fwdbwd"),
    ]  # fmt: skip
    for entry in data["cases"]:
        price = entry["price_of_determinism"]
        times = {one["name"]: one["seconds"]["median"] for one in entry["contestants"]}
        assert price["other"] == min((n for n in times if n.startswith("torch")), key=times.get)
        assert price["times_the_other"] == times[price["reproducible"]] / times[price["other"]]
        assert price["times_the_ceiling"] > 0


def test_contestants_on_request_run_only_when_named(capsys):
    named = "samebits with lse and entropy"
    assert named not in json.dumps(run_json(capsys, "--op", "logp"))
    data = run_json(capsys, "--op", "logp", "--contestants", named)
    assert [one["name"] for one in data["cases"][0]["contestants"]] == ["samebits", named]


def test_a_result_is_written_shown_again_and_drawn(capsys, tmp_path):
    written = tmp_path / "out.json"
    assert main(["--op", "linear_logp", "call", *SMALL, "--json", str(written)]) == 0
    first = capsys.readouterr().out
    assert "price of determinism" in first and "/samebits" in first and "QuACK" in first
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
    assert main(["--show", str(written), "--markdown", "--plots", str(tmp_path / "plots")]) == 0
    shown = capsys.readouterr().out
    assert "| samebits | " in shown and "**linear_logp fwd fp32, 3 x 64 x 32, 1 thread, warm cache**" in shown
    assert sorted(path.name for path in (tmp_path / "plots").iterdir()) == [
        "call-fwd-fp32-1-thread.png", "call-fwd-fp32-1-thread.svg",
        "linear-logp-fwd-fp32-1-thread.png", "linear-logp-fwd-fp32-1-thread.svg",
    ]  # fmt: skip
    rows = table.rows(json.loads(written.read_text())["cases"][0])
    assert rows[0][0] == "product" and {len(row) for row in rows} == {8}


def test_the_tables_need_nothing_of_the_package():
    assert "import samebits" not in (source := Path(table.__file__).read_text()) and "from ." not in source


def test_every_contestant_of_a_picture_looks_different():
    looks = {tuple(figure.look(number).values()) for number in range(64)}
    assert len(looks) == 64 > max(len(operator.contestants) for operator in OPERATORS.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--op", "softmax"), "invalid choice: 'softmax'"),
        (("--mode", "train"), "invalid choice: 'train'"),
        (("--dtype", "int8"), "invalid choice: 'int8'"),
        (("--tokens", "0"), "--tokens: is 0; must be at least 1"),
        (("--threads", "x"), "invalid _count value: 'x'"),
        (("--seconds", "-1"), "--seconds: is -1; may be 0 to 3600 seconds"),
        (("--seed", "-1"), "--seed: is -1; may be 0 to 2^32 - 1"),
    ],
)
def test_bad_options_are_refused(capsys, options, message):
    with pytest.raises(SystemExit) as stopped:
        main(list(options))
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--device", "cuda:99"), "--device cuda:99: "),
        (("--device", "tpu"), "--device tpu: "),
        (("--contestants", "QuAK"), "--contestants: QuAK; may be Liger, QuACK, samebits, "),
        (("--tokens", "99999999"), "logp fwd bf16, 99999999 x 32768, "),
        (("--json", "no/such/folder/x.json"), "--json no/such/folder/x.json: there is no such folder"),
        (("--show", "no/such/file"), "no/such/file: No such file or directory"),
        (("--show", __file__), "is not a result written by --json"),
    ],
)
def test_what_cannot_run_is_told_in_one_line(capsys, options, message):
    assert main(list(options)) == 2
    printed = capsys.readouterr()
    last = printed.err.strip().splitlines()[-1]
    assert last.startswith("samebits.bench: ") and message in last


def test_results_of_another_schema_are_refused(capsys, tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"schema": "other"}')
    assert main(["--show", str(path)]) == 2
    assert "has schema 'other'; must be 'samebits.bench.v1'" in capsys.readouterr().err


def test_an_interrupted_run_writes_nothing(capsys, monkeypatch, tmp_path):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "measure", interrupt)
    assert main([*SMALL, "--json", str(tmp_path / "x.json")]) == 130
    assert list(tmp_path.iterdir()) == []
    assert "interrupted; nothing was written" in capsys.readouterr().err


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "samebits.bench", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "--contestants" in done.stdout and "fwdbwd: forward and backward" in " ".join(done.stdout.split())
