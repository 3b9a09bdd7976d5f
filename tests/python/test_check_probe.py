"""`python -m samebits.check probe`: what it sees on each path, and that it notices what was not promised."""

import dataclasses
import json
from collections import Counter

import pytest
import torch

import samebits as sb
from samebits import _autograd
from samebits.check import probe
from samebits.check.cli import main
from samebits.check.probe import profiled, promises
from samebits.check.probe.operators import OPERATORS
from samebits.check.probe.paths import Path

FUSED = ("forward", "forward and backward", "gradient with create_graph", "torch.func.grad", "autocast")
COMPOSED = ("derivative of the gradient", "torch.func.jvp", "torch.func.jvp of grad")


def run_json(capsys, *options: str) -> tuple[int, dict]:
    status = main(["probe", *options, "--json"])
    return status, json.loads(capsys.readouterr().out)


def problems(capsys, *options: str) -> dict[str, list[str]]:
    """What was not promised, by path, of a probe that fails."""
    status, data = run_json(capsys, *options)
    assert status == 1 and data["passed"] is False and data["problems"]
    return {path["path"]: path["problems"] for path in data["paths"] if path["problems"]}


@pytest.mark.parametrize("dtype", ["bf16", "fp32", "fp64"])
def test_every_path_runs_what_its_plan_promised(capsys, dtype):
    names = [*FUSED, *COMPOSED, "vmap", "=", "accumulator", "511", "float64", "sb.matmul"]
    status, data = run_json(capsys, "--dtype", dtype, "--path", *names)
    assert status == 0 and data["passed"] is True and data["problems"] == []
    assert data["runtime"]["torch"] == torch.__version__ and data["runtime"]["device"] == "cpu"
    assert all(len(digest) == 64 for digest in data["libraries"].values())
    assert "libsamebits_torch.so" in data["libraries"]
    paths = {(path["op"], path["path"]): path for path in data["paths"]}
    assert {op for op, _ in paths} == {*OPERATORS}
    for op in OPERATORS:
        assert {*FUSED, *COMPOSED, "torch.func.vmap of grad"} <= {name for o, name in paths if o == op}
    for (op, name), path in paths.items():
        assert path["provenance"]["op"] == op and path["operators"] and path["samebits_kernels"] == []
        assert path["kind"] == ("composed" if name in COMPOSED else path["kind"])
    assert paths["logp", "forward and backward"]["operators"] == {"logp_forward": 1, "logp_backward": 1}
    assert {"matmul", "probability"} <= {*paths["linear_logp", "torch.func.jvp of grad"]["operators"]}
    assert paths["linear_logp", "forward and backward"]["torch_on_large_tensors"] == {}


def test_compiled_code_runs_the_same_operators(capsys):
    torch._dynamo.reset()
    status, data = run_json(capsys, "--op", "logp", "linear_logp", "--path", "torch.compile")
    assert status == 0
    assert [path["operators"] for path in data["paths"]] == [
        {"logp_forward": 1, "logp_backward": 1}, {"linear_logp_forward": 1, "linear_logp_backward": 1},
    ]  # fmt: skip


def test_the_table_names_every_path(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # so that no cell is wrapped
    assert main(["probe", "--op", "embedding", "--path", "grad"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "embedding_backward x1" in printed and "every path ran what its plan promised" in printed
    assert "kernels" not in printed  # a CPU's profiler sees none


def test_an_unfused_logp_is_found(capsys, monkeypatch):
    def unfused(logits, targets, **_):
        return torch.log_softmax(logits.float(), -1).gather(-1, targets[..., None])[..., 0]

    monkeypatch.setattr(sb, "logp", unfused)
    found = problems(capsys, "--op", "logp", "--path", "forward", "vmap")
    for name in ("forward", "forward and backward"):
        assert "logp_forward did not run" in found[name]
        assert "aten::_log_softmax ran, which samebits is there to replace" in found[name]
        assert "aten::gather ran, which samebits is there to replace" in found[name]
    assert "torch.func.vmap of grad" in found


def test_a_head_that_makes_the_logits_is_found(capsys, monkeypatch):
    def unfused(hidden, weight, targets, **_):
        return sb.logp(sb.linear(hidden, weight, out_dtype=torch.float32), targets)

    monkeypatch.setattr(sb, "linear_logp", unfused)
    found = problems(capsys, "--op", "linear_logp", "--path", "forward")
    assert found["forward"] == [
        "linear_logp_forward did not run",
        "samebits::logp_forward ran, which the plan does not name",
        "samebits::matmul ran, which the plan does not name",
    ]


def test_a_library_product_in_the_place_of_ours_is_found_however_small(capsys, monkeypatch):
    monkeypatch.setattr(
        sb, "linear", lambda x, weight, bias, **_: torch.nn.functional.linear(x, weight, bias)
    )
    found = problems(capsys, "--op", "matmul", "--path", "forward")
    assert "aten::addmm ran, which samebits is there to replace" in found["forward"]


def test_a_first_gradient_that_is_composed_is_found(capsys, monkeypatch):
    fused = _autograd._backward

    def composed(logits, *rest):
        return fused(logits, *rest) * torch.ones_like(logits)

    monkeypatch.setattr(_autograd, "_backward", composed)
    found = problems(capsys, "--op", "logp", "--path", "forward and backward", "torch.func")
    words = "ran on a tensor as large as the operator's own, on a path that is fused"
    assert f"aten::mul {words}" in found["forward and backward"]
    assert f"aten::mul {words}" in found["torch.func.grad"]
    assert "torch.func.jvp of grad" not in found  # there torch may multiply


@pytest.mark.parametrize("dropped", ["logp_backward", "probability"])
def test_an_operator_that_the_plan_does_not_name_is_found(capsys, monkeypatch, dropped):
    honest = sb.plan

    def silent(*args, **options):
        made = honest(*args, **options)
        return dataclasses.replace(made, kernels=tuple(k for k in made.kernels if not k.startswith(dropped)))

    monkeypatch.setattr(sb, "plan", silent)
    found = problems(capsys, "--op", "logp", "--path", "forward", "derivative")
    assert set(found) == (
        {"derivative of the gradient"} | ({"forward and backward"} if dropped == "logp_backward" else set())
    )
    for texts in found.values():
        assert texts == [f"samebits::{dropped} ran, which the plan does not name"]


def test_a_plan_that_takes_another_backend_than_the_one_asked_for_is_found(capsys, monkeypatch):
    honest = sb.plan
    assert main(["probe", "--op", "matmul", "--path", "forward", "--backend", "scalar"]) == 0
    monkeypatch.setattr(sb, "plan", lambda *a, backend=None, **options: honest(*a, **options))
    capsys.readouterr()
    found = problems(capsys, "--op", "matmul", "--path", "forward", "--backend", "scalar")
    assert "where scalar is asked for" in found["forward"][0]


def test_a_path_that_raises_has_not_kept_its_promise(capsys, monkeypatch):
    class Broken(RuntimeError):
        pass

    honest = sb.embedding

    def broken(ids, weight, **options):
        if weight.requires_grad:
            raise Broken("no gradient\ntoday")
        return honest(ids, weight, **options)

    monkeypatch.setattr(sb, "embedding", broken)
    found = problems(capsys, "--op", "embedding", "--path", "forward")
    assert found == {"forward and backward": ["did not run: Broken: no gradient"]}


def test_kernels_of_a_gpu_are_held_against_the_plan():
    def judged(kernels: list[str], *planned: str) -> list[str]:
        plan = dataclasses.replace(sb.plan("matmul"), kernels=planned)
        seen = profiled.Observed(Counter(), Counter(), Counter(), kernels)
        return promises.problems(Path("x", list, frozenset()), seen, [plan], True, None)

    ours = "void samebits::cuda::(anonymous namespace)::{}<float>(int)".format
    product = "matmul/cuda-sm90-sm90_product"
    assert judged([ours("sm90_product")], product) == []
    assert judged([ours("find_invalid"), ours("logp_forward_tile")], "logp_forward/cuda-sm90") == []
    assert judged([ours("product_mma_tile")], product) == [
        "kernel product_mma_tile ran, which the plan does not name"
    ]
    assert judged([], product) == ["no kernel of samebits ran on the device"]
    assert judged([ours("sm90_product"), "sm90_xmma_gemm_bf16"], product) == [
        "kernel sm90_xmma_gemm_bf16 ran, which samebits is there to replace"
    ]
    assert judged(["nvjet_tst_128x256"], "matmul/cuda-sm90-cublaslt") == []
    head = "linear_logp_forward/cuda-sm90-sm90"
    assert judged([ours("sm90_product"), ours("finish_rows")], head) == []
    assert judged([ours("tile_stats"), ours("finish_rows")], head) == [
        "kernel tile_stats ran, which the plan does not name", "engine sm90 of the plan did not run",
    ]  # fmt: skip
    assert judged([ours("sm90_product"), "Memcpy DtoH (Device -> Pageable)"], product) == [
        "something was copied to the host, which waits for the device"
    ]


def test_what_the_probe_itself_computes_is_not_counted():
    x = torch.randn(10, 10)

    def call():
        with profiled.not_of_the_path():
            x.exp().sum()
        return x.mul(2)

    seen = profiled.observe(call, "cpu", 100)
    assert seen.aten["mul"] == 1 and "exp" not in seen.aten and "sum" not in seen.aten
    assert seen.large == {"mul": 1} and profiled.observe(call, "cpu", 101).large == {}


@pytest.mark.parametrize(
    "options, said",
    [
        (
            ("--path", "nowhere"),
            "--path nowhere: no path of logp, linear_logp, matmul, embedding has such a name",
        ),
        (("--backend", "abacus"), "abacus"),
    ],
)
def test_what_cannot_be_probed_is_said_in_one_line(capsys, options, said):
    assert main(["probe", *options]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("samebits.check: ") and said in error and "\n" not in error


def test_a_check_has_what_the_command_asks_of_it():
    assert probe.SUMMARY and probe.EXAMPLE.startswith("python -m samebits.check probe")
