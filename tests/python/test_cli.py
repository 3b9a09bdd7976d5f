"""The samebits command end to end: what it computes, records and audits."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import samebits as sb
from cli_command import error_of, example, flip_bit, read_record, run
from support import DTYPES, assert_same_bits


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_command_and_python_give_the_same_bits(tmp_path, dtype):
    logits, targets = example(tmp_path / "in", dtype)
    run("logp", tmp_path / "in", "-o", tmp_path / "out", "--lse", "--entropy", "--temperature", "0.7")
    tensors, _ = read_record(tmp_path / "out")
    expected = sb.logp(logits, targets, temperature=0.7, return_lse=True, return_entropy=True)
    for name in ("logp", "lse", "entropy"):
        assert_same_bits(tensors[name], getattr(expected, name), name)
    assert torch.equal(tensors["targets"], targets)


def test_values_are_those_of_the_formula(tmp_path):
    logits, targets = example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    exact = torch.log_softmax(logits.double(), -1).gather(-1, targets[..., None])[..., 0]
    assert (read_record(tmp_path / "out")[0]["logp"].double() - exact).abs().max() < 2e-6


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_npy_gives_the_bits_of_safetensors(tmp_path, dtype, ids):
    logits, targets = example(tmp_path / "in", getattr(torch, np.dtype(dtype).name))
    np.save(tmp_path / "logits.npy", logits.numpy())
    np.save(tmp_path / "targets.npy", targets.numpy().astype(ids))
    run("logp", tmp_path / "in", "-o", tmp_path / "a")
    run("logp", tmp_path / "logits.npy", tmp_path / "targets.npy", "-o", tmp_path / "b")
    assert_same_bits(read_record(tmp_path / "a")[0]["logp"], read_record(tmp_path / "b")[0]["logp"])
    run("audit", tmp_path / "logits.npy", tmp_path / "a")
    run("audit", tmp_path / "in", tmp_path / "b")


def test_threads_and_backends_never_change_a_byte_of_the_tensors(tmp_path):
    example(tmp_path / "in", torch.bfloat16, (50,), 5000)
    names = [b["name"] for b in json.loads(run("info", "--json").stdout)["backends"] if b["available"]]
    assert names
    expected = None
    for backend in names:
        for threads in (1, 2, 7):
            options = ("--backend", backend, "--threads", threads, "--lse", "--entropy", "--force")
            run("logp", tmp_path / "in", "-o", tmp_path / "out", *options)
            tensors, _ = read_record(tmp_path / "out")
            expected = expected or tensors
            for name, tensor in expected.items():
                assert torch.equal(tensor.view(torch.uint8), tensors[name].view(torch.uint8)), (
                    backend,
                    threads,
                )
        run("audit", tmp_path / "in", tmp_path / "out", "--backend", backend)
    run("audit", tmp_path / "in", tmp_path / "out", "--twin")


def test_rows_across_chunks_keep_their_bits(tmp_path):
    # 32 MiB a chunk: 131072 float32 logits make 64 rows of it, so 150 rows are three chunks.
    logits, targets = example(tmp_path / "in", torch.float32, (150,), 131072)
    run("logp", tmp_path / "in", "-o", tmp_path / "all")
    whole = read_record(tmp_path / "all")[0]["logp"]
    for first, count in ((0, 1), (63, 3), (127, 23)):
        part = slice(first, first + count)
        save_file({"logits": logits[part], "targets": targets[part]}, tmp_path / "part")
        run("logp", tmp_path / "part", "-o", tmp_path / "out", "--force")
        assert_same_bits(read_record(tmp_path / "out")[0]["logp"], whole[part])


def test_every_option_reaches_the_library_and_the_audit(tmp_path):
    temperature = torch.linspace(0.5, 2, 15).reshape(3, 5)
    rows = torch.tensor([0, 7, 7, 14, 99, -3])
    logits, targets = example(tmp_path / "plain")
    targets[0, 0], targets[1, 2], targets[2, 4] = 950, -1, 3
    save_file(
        {"l": logits, "t": targets.int(), "tau": temperature, "picked": rows},
        tmp_path / "in",
    )
    names = ("--logits", "l", "--targets", "t", "--row-temperature", "tau", "--rows", "picked")
    options = (
        "--vocab-size",
        900,
        "--ignore-index",
        3,
        "--on-invalid",
        "nan",
        "--precision",
        "fp64",
        "--lse",
    )
    run("logp", tmp_path / "in", "-o", tmp_path / "out", "--lse", *names, *options)
    tensors, metadata = read_record(tmp_path / "out")
    expected = sb.logp(
        logits,
        targets,
        temperature=temperature,
        rows=rows,
        vocab_size=900,
        ignore_index=3,
        on_invalid="nan",
        precision="fp64",
        return_lse=True,
    )
    assert_same_bits(tensors["logp"], expected.logp)
    assert_same_bits(tensors["lse"], expected.lse)
    assert tensors["logp"][0, 0].isnan() and tensors["logp"][2, 4] == 0 and tensors["logp"][0, 1] == 0
    assert metadata["samebits.contract"] == "row64.v1"
    run("audit", tmp_path / "in", tmp_path / "out", "--logits", "l")
    run("audit", tmp_path / "in", tmp_path / "out", "--logits", "l", "--twin")


def test_raise_names_the_row_of_the_file_and_writes_nothing(tmp_path):
    logits, targets = example(tmp_path / "in", torch.float32, (150,), 131072)
    targets[140] = 131072
    save_file({"logits": logits, "targets": targets}, tmp_path / "in")
    message = error_of("logp", tmp_path / "in", "-o", tmp_path / "out", "--on-invalid", "raise")
    assert "row 140 has the id 131072" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (1, 1, 1, 1, 1, 1, 1, 1, 1, 2)], ids=str)
def test_any_leading_shape(tmp_path, shape):
    example(tmp_path / "in", torch.float32, shape, 37)
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    assert read_record(tmp_path / "out")[0]["logp"].shape == shape
    run("audit", tmp_path / "in", tmp_path / "out")


def test_data_need_not_be_aligned(tmp_path):
    logits, targets = example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    sizes = [3, logits.nbytes, targets.nbytes]
    offsets = [0, 3, 3 + sizes[1], sum(sizes)]
    entries = zip(
        ("pad", "logits", "targets"), ("U8", "F32", "I64"), ([3], [3, 5, 1000], [3, 5]), strict=True
    )
    header = {
        name: {"dtype": dtype, "shape": shape, "data_offsets": offsets[i : i + 2]}
        for i, (name, dtype, shape) in enumerate(entries)
    }
    text = json.dumps(header).encode()
    data = b"pad" + logits.numpy().tobytes() + targets.numpy().tobytes()
    (tmp_path / "odd").write_bytes(len(text).to_bytes(8, "little") + text + data)
    run("audit", tmp_path / "odd", tmp_path / "out")


@pytest.mark.parametrize("name", ["logp", "lse", "entropy"])
@pytest.mark.parametrize("bit", [0, 31])
def test_audit_finds_one_flipped_bit(tmp_path, name, bit):
    example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out", "--lse", "--entropy")
    run("audit", tmp_path / "in", tmp_path / "out")
    flip_bit(tmp_path / "out", name, 8, bit)
    for judge in ((), ("--twin",)):
        result = run("audit", tmp_path / "in", tmp_path / "out", *judge, status=1)
        where = "differs in 1 of 15 rows; first at row 8 (position [1, 3], token 3)"
        assert result.stdout.startswith(f"{name} {where}")
        assert result.stdout.count("0x") >= 2 and " ulp" in result.stdout
    report = json.loads(run("audit", tmp_path / "in", tmp_path / "out", "--json", status=1).stdout)
    assert report["tensors"][name]["first_position"] == [1, 3]
    assert report["logits_as_recorded"] is True


def test_audit_tells_other_logits_from_other_arithmetic(tmp_path):
    logits, targets = example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out")
    for row, change in ((13, 1.0), (14, 1000.0)):
        other = logits.clone()
        other[row // 5, row % 5, logits[row // 5, row % 5].argmin()] += (
            change  # 1.0 there changes no bit of logp
        )
        save_file({"logits": other, "targets": targets}, tmp_path / "other")
        text = run("audit", tmp_path / "other", tmp_path / "out", status=1).stdout
        assert "the logits are not the recorded ones" in text
        assert ("first at row 14" if row == 14 else "same bits: logp of 15 rows") in text


def test_audit_takes_a_record_that_python_wrote(tmp_path):
    logits, targets = example(tmp_path / "in", torch.bfloat16)
    plan = sb.plan("logp", dtype=torch.bfloat16, temperature=0.7, vocab_size=1000)
    logp = sb.logp(logits, targets, temperature=0.7)
    metadata = {"samebits.provenance": json.dumps(plan.provenance)}
    save_file({"logp": logp, "targets": targets}, tmp_path / "out", metadata)
    assert "same bits: logp of 15 rows, row.v1" in run("audit", tmp_path / "in", tmp_path / "out").stdout


def test_metadata_says_what_was_computed(tmp_path):
    example(tmp_path / "in")
    run("logp", tmp_path / "in", "-o", tmp_path / "out", "--temperature", "0.5", "--ignore-index", "-100")
    _, metadata = read_record(tmp_path / "out")
    assert metadata["samebits.contract"] == "row.v1" and metadata["samebits.format"] == "logp.1"
    assert metadata["samebits.version"] == sb.__version__
    provenance = json.loads(metadata["samebits.provenance"])
    assert provenance["semantics"]["temperature"] == 0.5 and provenance["semantics"]["ignore_index"] == -100
    assert json.loads(metadata["samebits.logits"])["shape"] == [3, 5, 1000]


def test_info_names_backends_contracts_and_threads():
    facts = json.loads(run("info", "--json").stdout)
    assert facts["version"] == sb.__version__ and facts["threads"] >= 1
    assert sum(backend["in_use"] for backend in facts["backends"]) == 1
    contracts = {entry.get("contract") for entry in facts["contracts"]}
    assert {"row.v1", "row64.v1", "fma.v1", "fma64.v1"} <= contracts
    text = run("info").stdout
    assert "in use" in text and "row64.v1" in text


def test_selftest_passes_and_bench_measures():
    text = run("selftest", "--cases", 60).stdout
    assert "same bits" in text and "DIFFERS" not in text
    report = json.loads(run("bench", "--rows", 2, "--vocab", 500, "--seconds", 0.01, "--json").stdout)
    assert report["read_gigabytes_per_second"] > 0 and len(report["cells"]) == 2
    assert all(cell["forward"]["gigabytes_per_second"] > 0 for cell in report["cells"])
    assert "pure read" in run("bench", "--rows", 2, "--vocab", 500, "--seconds", 0.01).stdout


@pytest.mark.parametrize("command", ["info", "logp", "audit", "selftest", "bench"])
def test_help_shows_examples(command):
    text = run(command, "--help").stdout
    assert f"Examples:\n  samebits {command}" in text
    assert command in run("--help").stdout
