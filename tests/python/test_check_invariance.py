"""`python -m samebits.check invariance`: it finds what depends on the batch, and nothing else."""

import json
import sys
import textwrap
import types

import pytest
import torch

from samebits.check.bits import difference, show
from samebits.check.cli import main
from samebits.check.invariance.trials import AXES

SMALL = ("--rows", "40", "--vocab", "50", "--hidden", "24", "--threads", "1", "2")


def run_json(capsys, *options: str) -> tuple[int, dict]:
    status = main(["invariance", *options, "--json"])
    printed = capsys.readouterr()
    assert "\n" not in printed.out.strip().splitlines()[0] and "0:00" in printed.err  # the progress bar
    return status, json.loads(printed.out)


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module `planted` of that source, importable by its name."""

    def plant(source: str) -> None:
        monkeypatch.delitem(sys.modules, "planted", raising=False)
        (tmp_path / "planted.py").write_text("import torch\n" + textwrap.dedent(source))
        monkeypatch.syspath_prepend(str(tmp_path))

    yield plant
    sys.modules.pop("planted", None)


def failing_axes(data: dict) -> set[str]:
    return {line["axis"] for line in data["lines"] if line["differing"]}


@pytest.mark.parametrize("target", ["logp", "linear_logp", "matmul"])
def test_samebits_has_no_differing_bit_in_any_dtype_with_gradients(capsys, target):
    dtypes = ("fp32", "bf16", "fp16", "fp64")
    status, data = run_json(capsys, "--target", target, "--check-grad", "--dtype", *dtypes, *SMALL)
    assert status == 0 and data["passed"] is True and data["smallest"] == [] and data["refusals"] == []
    assert {line["axis"] for line in data["lines"]} == {*AXES}
    for line in data["lines"]:
        assert line["calls"] > 0 and line["elements"] > 0 and line["differing"] == line["bits"] == 0
    assert set(data["provenance"]) == {"float32", "bfloat16", "float16", "float64"}
    assert all(p["level"] == "cross_device" for p in data["provenance"].values())
    floating = {"logp": ["logits"], "linear_logp": ["hidden", "weight"], "matmul": ["a", "b"]}[target]
    outputs = {line["output"] for line in data["lines"]}
    assert outputs == {"result", *(f"grad_{name}" for name in floating)}


def test_padding_does_not_reach_the_gradient_of_the_weight_of_linear_logp(capsys):
    _, data = run_json(capsys, "--target", "linear_logp", "--check-grad", "--dtype", "fp32", *SMALL)
    (line,) = (x for x in data["lines"] if (x["axis"], x["output"]) == ("padding", "grad_weight"))
    assert line["calls"] == 4 and line["elements"] == 4 * 50 * 24


def test_the_batch_dependence_of_torch_mm_is_found_on_this_cpu(capsys):
    for depth in ("2688", "512", "300", "1000", "4096"):
        status, data = run_json(
            capsys, "--target", "torch.mm", "--dtype", "fp32", "--rows", "65", "--vocab", "64",
            "--hidden", depth,
        )  # fmt: skip
        if status == 1:
            break
    assert status == 1 and data["passed"] is False and "batch size" in failing_axes(data)
    (case,) = data["smallest"]
    assert case["output"] == "result" and case["values"][0] != case["values"][1]
    assert case["shapes"]["a"][1] == case["shapes"]["b"][0] < int(depth)
    assert sum(len(batch["rows"]) for batch in case["batches"]) < 2 * 65


# What is planted -> the axes on which it must be found, and others on which it may.
_LOGP = "return torch.log_softmax(x.double(), -1).gather(1, t[:, None])[:, 0]"
PLANTED = {
    "the maximum of the whole batch": (
        "def f(x, t):\n    m = x.max()\n    p = ((x - m).exp().sum(-1)).log()\n"
        "    return (x.gather(1, t[:, None])[:, 0] - m) - p",
        {"batch size", "chunks"}, {"packing", "padding", "position", "strides"},  # torch's sums too
    ),
    "another sum for batches of one": (
        "def f(x, t):\n    if len(x) == 1:\n        x = x.half().float()\n    " + _LOGP,
        {"batch size", "chunks", "packing"}, set(),
    ),
    "the place in the batch": (
        "def f(x, t):\n    x = x * (1 + 1e-6 * (torch.arange(len(x)) == 5)[:, None])\n    " + _LOGP,
        {"position", "batch size", "chunks", "packing", "padding"}, set(),
    ),
    "strides": (
        "def f(x, t):\n    if x.stride(1) != 1:\n        x = x + 1e-3 * x\n    " + _LOGP,
        {"strides"}, set(),
    ),
    "alignment": (
        "def f(x, t):\n    if x.storage_offset():\n        x = x + 1e-3 * x\n    " + _LOGP,
        {"strides"}, set(),
    ),
    "the number of threads": (
        "def f(x, t):\n    x = x * (1 + 1e-3 * (torch.get_num_threads() == 2))\n    " + _LOGP,
        {"threads"}, set(),
    ),
    "chance": (
        "n = 0\ndef f(x, t):\n    global n\n    n += 1\n    x = x * (1 + 1e-3 * n)\n    " + _LOGP,
        set(AXES) - {"other call"}, set(),
    ),
    "what padding holds": (
        "def f(x, t):\n    if (x == 96).any():\n        x = x.half().float()\n    " + _LOGP,
        {"padding"}, set(),
    ),
    "the sign of zero": (
        "def f(x, t):\n    z = x[:, 0] * 0\n    return z.abs() if len(x) < 3 else -z.abs()",
        {"batch size", "chunks", "packing"}, set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("source, needed, possible", PLANTED.values(), ids=PLANTED)
def test_a_planted_dependence_is_found_where_it_is(capsys, planted, source, needed, possible):
    planted(source)
    status, data = run_json(capsys, "--target", "planted:f", "--dtype", "fp32", *SMALL)
    assert status == 1 and data["passed"] is False
    assert needed <= failing_axes(data) <= needed | possible
    (case,) = data["smallest"]
    assert case["axis"] in needed and case["values"][0] != case["values"][1]


def test_a_function_of_the_row_alone_passes(capsys, planted):
    planted("def f(x, t):\n    return torch.stack([r.double().log_softmax(-1)[i] for r, i in zip(x, t)])")
    status, data = run_json(capsys, "--target", "planted:f", "--check-grad", *SMALL)
    assert status == 0 and data["passed"] is True and data["provenance"] == {}


def test_the_smallest_case_has_nothing_to_leave_out(capsys, planted):
    planted("""
        def f(a, b):
            product = (a.double()[:, :, None] * b.double()).sum(1)
            few = a.shape[0] >= 3 and a.shape[1] >= 5 and b.shape[1] >= 11
            return product * (1 + 1e-3 * few)
    """)
    status, data = run_json(capsys, "--target", "planted:f", "--kind", "product", "--dtype", "fp64", *SMALL)
    assert status == 1
    (case,) = data["smallest"]
    assert case["shapes"]["b"] == [5, 11]
    assert sorted(len(batch["rows"]) for batch in case["batches"]) == [1, 3]
    assert main(["invariance", "--target", "planted:f", "--kind", "product", "--dtype", "fp64", *SMALL]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "smallest failing case, float64, batch size: a [rows, 5], b [5, 11] result of row" in said


def test_a_gradient_of_the_weight_that_sums_in_another_order_is_found_and_shrunk(capsys, planted):
    planted("""
        class F(torch.autograd.Function):
            @staticmethod
            def forward(ctx, h, w, t):
                ctx.save_for_backward(h, w)
                return h.double().sum(-1)

            @staticmethod
            def backward(ctx, g):
                h, w = ctx.saved_tensors
                up = h.flip(0) if h.stride(1) != 1 else h
                return torch.zeros_like(h), sum(up.unbind()).expand_as(w), None

        f = F.apply
    """)
    status, data = run_json(
        capsys, "--target", "planted:f", "--kind", "head", "--check-grad", "--dtype", "fp32", *SMALL
    )
    assert status == 1 and failing_axes(data) == {"strides"}
    assert {line["output"] for line in data["lines"] if line["differing"]} == {"grad_weight"}
    (case,) = data["smallest"]
    assert case["row"] == -1 and case["shapes"]["weight"][0] == 1
    assert [len(batch["rows"]) for batch in case["batches"]] == [3, 3]  # of two the order does not matter


def test_a_batch_that_is_refused_is_listed_and_not_counted_as_equal(capsys, planted):
    planted(f"""
        def f(x, t):
            if x.stride(1) != 1:
                raise ValueError("rows must be dense")
            {_LOGP}
    """)
    status, data = run_json(capsys, "--target", "planted:f", "--dtype", "fp32", *SMALL)
    assert status == 0
    assert [r["what"] for r in data["refusals"]] == ["logits: transposed"]
    assert data["refusals"][0]["reason"] == "ValueError: rows must be dense"
    (line,) = (line for line in data["lines"] if line["axis"] == "strides")
    assert line["refused"] == 1 and line["elements"] == 40 * (line["calls"] - 1)


@pytest.mark.parametrize(
    "source, options, said",
    [
        ("def f(x, t):\n    raise ValueError('no')", (), "planted:f, float32: ValueError: no"),
        ("def f(x, t):\n    return x", (), "[40, 50] for 40 rows; must be floating [rows]"),
        ("def f(x, t):\n    return t", (), "returned torch.int64 [40]"),
        ("def f(x, t):\n    return 1", (), "returned a int; must be a tensor"),
        ("def f(x, t):\n    return x.detach()[:, 0]", ("--check-grad",), "does not require grad"),
        ("def f(x, t):\n    return x[:, 0].to([torch.float32, torch.float64][len(x) == 40])", (),
         "result is torch.float64 [40] in one batch and torch.float32 [1] in another"),
        ("n = 0\ndef f(x, t):\n    global n\n    n += 1\n    assert n < 30\n    return x[:, 0]", (),
         "the same call worked at first, and now: AssertionError"),
        ("f = 1", (), "is a int; must be a function"),
        ("g = 1", (), "planted has no f"),
        ("1 / 0", (), "planted cannot be imported: ZeroDivisionError: division by zero"),
    ],
)  # fmt: skip
def test_what_cannot_be_audited_is_said_in_one_line(capsys, planted, source, options, said):
    planted(source)
    assert main(["invariance", "--target", "planted:f", "--dtype", "fp32", *SMALL, *options]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("samebits.check: --target planted:f") and said in last


@pytest.mark.parametrize(
    "options, said",
    [
        (("--target", "nothing"), "--target nothing: may be logp, linear_logp, matmul, torch.mm"),
        (("--target", ":f"), "--target :f: must be module:function"),
        (("--target", "no.such:f"), "no.such cannot be imported: ModuleNotFoundError"),
        (("--target", "logp", "--kind", "head"), "--kind head: logp is of kind logp"),
        (("--target", "logp", "--padding-id", "1"), "--padding-id 1: goes with --target module"),
        (("--target", "a:b", "--kind", "product", "--padding-id", "1"), "a product has no ids"),
        (("--target", "logp", "--rows", "0"), "--rows 0: must be 1 or more"),
        (("--target", "logp", "--threads", "0"), "--threads 0: may be 1 to 1024"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_one_line(capsys, options, said):
    assert main(["invariance", *options]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("samebits.check: ") and said in error and "\n" not in error


def test_a_package_that_is_not_there_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cut_cross_entropy", None)
    assert main(["invariance", "--target", "cce"]) == 2
    assert "cut_cross_entropy cannot be imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("target", "module", "function"),
    [
        ("cce", "cut_cross_entropy", "linear_cross_entropy"),
        ("liger", "liger_kernel.transformers.functional", "liger_fused_linear_cross_entropy"),
    ],
)
def test_heads_of_other_packages_are_called_for_losses_of_each_row(
    capsys, monkeypatch, target, module, function
):
    def losses(hidden, weight, targets, reduction):
        assert reduction == "none"
        return torch.nn.functional.cross_entropy(hidden @ weight.t(), targets, reduction="none") * len(hidden)

    monkeypatch.setitem(sys.modules, module, types.SimpleNamespace(**{function: losses}))
    status, data = run_json(capsys, "--target", target, "--dtype", "fp32", *SMALL)
    assert status == 1 and data["kind"] == "head" and "batch size" in failing_axes(data)


def test_one_row_and_one_column_can_be_audited(capsys):
    for target in ("logp", "linear_logp", "matmul"):
        status, data = run_json(capsys, "--target", target, "--rows", "1", "--vocab", "1", "--hidden", "1")
        assert status == 0 and data["passed"] is True


def test_differences_count_elements_and_bits():
    left = torch.tensor([0.0, 1.0, torch.nan, 2.0])
    right = torch.tensor([-0.0, 1.0, torch.nan, 2.0000002])
    assert difference(left, right) == (4, 2, 2, 0)
    assert difference(left, left) == (4, 0, 0, -1)
    assert show(left, 1) == "1 (0x3f800000)" and show(right.bfloat16(), 0) == "-0 (0x8000)"
