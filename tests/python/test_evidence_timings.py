"""The clock and the contestants of GPU evidence, on what a CPU can do of them."""

import sys
from pathlib import Path

import torch

from samebits.bench.cases import Case, Contestant

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from evidence import head_timings, timings

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
