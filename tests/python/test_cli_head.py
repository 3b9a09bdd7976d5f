"""The samebits command on hidden states and an LM head: what it records and audits."""

import json

import pytest
import torch
from safetensors.torch import save_file

import samebits as sb
from cli_command import flip_bit, read_record, run
from cli_heads import checkpoint, head, hidden_states, unaligned
from support import DTYPES, assert_same_bits

OUTPUTS = ("logp", "lse", "entropy")


def record(folder, *options, dtype=torch.bfloat16, **sizes):
    """Hidden states, a head and the record of them, in that folder."""
    hidden, targets = hidden_states(folder / "h", dtype, **sizes)
    weight, bias = head(folder / "w", dtype)
    run("logp", folder / "h", "--weight", folder / "w", "-o", folder / "r", "--lse", "--entropy", *options)
    return hidden, targets, weight, bias


@pytest.mark.parametrize(
    "dtype, contract",
    [*((dtype, "auto") for dtype in DTYPES), (torch.bfloat16, "fma"), (torch.float16, "tc16")],
    ids=str,
)
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_command_and_python_give_the_same_bits(tmp_path, dtype, contract, with_bias):
    options = ("--bias", tmp_path / "w") if with_bias else ()
    hidden, targets, weight, bias = record(
        tmp_path, *options, "--contract", contract, "--temperature", "0.7", dtype=dtype
    )
    tensors, metadata = read_record(tmp_path / "r")
    expected = sb.linear_logp(
        hidden, weight, targets, bias=bias if with_bias else None, temperature=0.7, contract=contract,
        return_lse=True, return_entropy=True,
    )  # fmt: skip
    for name in OUTPUTS:
        assert_same_bits(tensors[name], getattr(expected, name), name)
    assert json.loads(metadata["samebits.provenance"])["op"] == "linear_logp"
    for judge in ((), ("--twin",), ("--threads", "1")):
        text = run(
            "audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "w", *options, *judge
        ).stdout
        named = "hidden and weight and bias" if with_bias else "hidden and weight"
        assert text.startswith("same bits: logp, lse, entropy of 15 rows, ")
        assert metadata["samebits.contract"] in text and f"{named} as recorded" in text
        assert text.endswith(" tokens/s\n")


def test_every_option_reaches_the_library_and_the_audit(tmp_path):
    temperature = torch.linspace(0.5, 2, 15).reshape(3, 5)
    rows = torch.tensor([0, 7, 7, 12, 14, 99, -3])
    hidden, targets = hidden_states(tmp_path / "plain")
    weight, bias = head(tmp_path / "w")
    targets[0, 0], targets[1, 2], targets[2, 4] = 250, -1, 3
    save_file({"x": hidden, "t": targets.int(), "tau": temperature, "picked": rows}, tmp_path / "h")
    save_file({"head": weight}, tmp_path / "v")
    names = ("--hidden", "x", "--targets", "t", "--row-temperature", "tau", "--rows", "picked")
    options = ("--vocab-size", 200, "--ignore-index", 3, "--on-invalid", "nan", "--lse")
    place = ("--weight", f"{tmp_path / 'v'}::head", "--bias", f"{tmp_path / 'w'}::lm_head.bias")
    run("logp", tmp_path / "h", *place, "-o", tmp_path / "r", *names, *options)
    tensors, _ = read_record(tmp_path / "r")
    expected = sb.linear_logp(
        hidden, weight, targets, bias=bias, temperature=temperature, rows=rows, vocab_size=200,
        ignore_index=3, on_invalid="nan", return_lse=True,
    )  # fmt: skip
    assert_same_bits(tensors["logp"], expected.logp)
    assert_same_bits(tensors["lse"], expected.lse)
    assert tensors["logp"][0, 0].isnan() and tensors["logp"][2, 4] == 0 and tensors["logp"][0, 1] == 0
    for judge in ((), ("--twin",)):
        run("audit", tmp_path / "h", tmp_path / "r", *place, "--hidden", "x", *judge)


def test_a_head_is_found_wherever_its_rows_lie(tmp_path):
    _, _, weight, _ = record(tmp_path)
    index = checkpoint(tmp_path / "sharded", weight)
    (tmp_path / "single").mkdir()
    save_file({"tied": weight}, tmp_path / "single" / "model.safetensors")
    unaligned(tmp_path / "odd", "lm_head.weight", weight)
    cuts = [0, 1, 130, 299, 300]
    parts = []
    for i in range(4):
        save_file({"w": weight[cuts[i] : cuts[i + 1]].clone()}, tmp_path / f"rank{i}")
        parts += ["--weight", f"{tmp_path / f'rank{i}'}::w"]
    places = [
        ["--weight", index],
        ["--weight", tmp_path / "sharded"],
        ["--weight", f"{tmp_path / 'single'}::tied"],
        ["--weight", tmp_path / "odd"],
        parts,
    ]
    for place in places:
        for judge in ((), ("--twin",), ("--threads", "1")):
            text = run("audit", tmp_path / "h", tmp_path / "r", *place, *judge).stdout
            assert "hidden and weight as recorded" in text
    # Parts in another order are another head: found, and said.
    text = run("audit", tmp_path / "h", tmp_path / "r", *parts[2:], *parts[:2], status=1).stdout
    assert "logp differs in " in text and "the weight is not the recorded one: digest" in text


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("bit", [0, 31])
def test_one_flipped_bit_is_found_and_named(tmp_path, name, bit):
    record(tmp_path)
    arguments = ("audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "w")
    run(*arguments)
    flip_bit(tmp_path / "r", name, 8, bit)
    for judge in ((), ("--twin",)):
        text = run(*arguments, *judge, status=1).stdout
        where = "differs in 1 of 15 rows; first at row 8 (position [1, 3], token 3)"
        assert text.startswith(f"{name} {where}: recorded ") and " ulp" in text and text.count("0x") == 2
    report = json.loads(run(*arguments, "--json", status=1).stdout)
    assert report["same"] is False and report["computed"] == report["rows"] == 15
    found = report["tensors"][name]
    assert found["differing_rows"] == 1 and found["first_row"] == 8 and found["first_position"] == [1, 3]
    assert found["distance"] == "1 ulp" or bit == 31
    assert report["hidden_as_recorded"] is report["weight_as_recorded"] is True
    assert report["tokens_per_second"] > 0 and report["provenance"]["contract"] == report["contract"]


def test_other_inputs_are_told_from_other_arithmetic(tmp_path):
    hidden, targets, weight, _ = record(tmp_path)
    other = weight.clone()
    other[299, 0] += 1e-3
    save_file({"lm_head.weight": other}, tmp_path / "other")
    text = run("audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "other", status=1).stdout
    assert "the weight is not the recorded one" in text
    other = hidden.clone()
    other[2, 4, 63] *= 2
    save_file({"hidden": other, "targets": targets}, tmp_path / "h2")
    text = run("audit", tmp_path / "h2", tmp_path / "r", "--weight", tmp_path / "w", status=1).stdout
    assert "first at row 14" in text and "the hidden states are not the recorded ones" in text


def test_audit_takes_a_record_that_python_wrote(tmp_path):
    hidden, targets = hidden_states(tmp_path / "h")
    weight, _ = head(tmp_path / "w")
    out = sb.linear_logp(hidden, weight, targets, temperature=0.7, ignore_index=-100, return_lse=True)
    plan = sb.plan("linear_logp", hidden, weight, targets, temperature=0.7, ignore_index=-100)
    tensors = {"logp": out.logp, "lse": out.lse, "targets": targets}
    # A strict operator says more; what decides bits is in "semantics".
    provenance = {"model": "nemotron_h", "checkpoint": "x@y", **plan.provenance, "device_probe": "passed"}
    save_file(tensors, tmp_path / "r", {"samebits.provenance": json.dumps(provenance)})
    audit = ("audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "w")
    assert run(*audit).stdout.startswith("same bits: logp, lse of 15 rows, tc16.v1+row.v1, recomputed by ")
    report = json.loads(run(*audit, "--json").stdout)
    assert report["recorded_provenance"] == provenance and report["weight_as_recorded"] is None


def test_chunks_and_masked_tokens_keep_their_bits(tmp_path):
    # 256 tokens that take part make a chunk (128 rows where the product is not fused); prompts do not count.
    hidden, targets = hidden_states(tmp_path / "plain", shape=(1500,))
    weight, _ = head(tmp_path / "w")
    targets[:300] = -100
    targets[700:1200:2] = -100
    save_file({"hidden": hidden, "targets": targets}, tmp_path / "h")
    save_file({"hidden": hidden[1100:1300], "targets": targets[1100:1300]}, tmp_path / "part")
    for source in ("h", "part"):
        run("logp", tmp_path / source, "--weight", tmp_path / "w", "-o", tmp_path / f"r-{source}")
    whole = read_record(tmp_path / "r-h")[0]["logp"]
    assert_same_bits(whole, sb.linear_logp(hidden, weight, targets))
    assert_same_bits(read_record(tmp_path / "r-part")[0]["logp"], whole[1100:1300])
    save_file({"w": weight[:100].clone()}, tmp_path / "w0")
    save_file({"w": weight[100:].clone()}, tmp_path / "w1")
    parts = ("--weight", f"{tmp_path / 'w0'}::w", "--weight", f"{tmp_path / 'w1'}::w")
    result = run("audit", tmp_path / "h", tmp_path / "r-h", *parts, "--json", "--progress")
    report = json.loads(result.stdout)
    assert report["computed"] == 950 and report["rows"] == 1500
    assert "100%  950/950 tokens" in result.stderr and " tokens/s" in result.stderr


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (1, 1, 1, 1, 1, 1, 1, 1, 1, 2)], ids=str)
def test_any_leading_shape(tmp_path, shape):
    record(tmp_path, shape=shape)
    assert read_record(tmp_path / "r")[0]["logp"].shape == shape
    for judge in ((), ("--twin",)):
        run("audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "w", *judge)
