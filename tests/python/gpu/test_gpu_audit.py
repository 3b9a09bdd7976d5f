"""What a GPU recorded is audited on the CPU by the samebits command."""

import json

import pytest
import torch
from safetensors.torch import save_file

import samebits as sb
from cli_command import flip_bit, run
from cli_heads import head, hidden_states

GPU = "cuda:0"


@pytest.mark.parametrize(
    ("dtype", "contract"),
    [
        (torch.bfloat16, "auto"), (torch.float16, "auto"), (torch.float32, "auto"), (torch.bfloat16, "fma"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
def test_a_record_of_the_gpu_is_audited_on_the_cpu(tmp_path, dtype, contract, with_bias):
    hidden, targets = hidden_states(tmp_path / "h", dtype, shape=(3, 100), size=1000, vocab=5003)
    weight, bias = head(tmp_path / "w", dtype, size=1000, vocab=5003)
    targets[1, 10:60] = -100
    options = {"temperature": 0.7, "contract": contract, "ignore_index": -100}
    operands = [tensor.to(GPU) for tensor in (hidden, weight, targets)]
    out = sb.linear_logp(
        *operands, bias=bias.to(GPU) if with_bias else None, return_lse=True, return_entropy=True, **options
    )
    tensors = {"logp": out.logp, "lse": out.lse, "entropy": out.entropy, "targets": targets}
    plan = sb.plan("linear_logp", *operands, **options)
    save_file(tensors, tmp_path / "r", {"samebits.provenance": json.dumps(plan.provenance)})
    audit = ["audit", tmp_path / "h", tmp_path / "r", "--weight", tmp_path / "w"]
    audit += ["--bias", tmp_path / "w"] if with_bias else []
    assert "same bits: logp, lse, entropy of 300 rows" in run(*audit).stdout
    flip_bit(tmp_path / "r", "logp", 299)
    assert "first at row 299 (position [2, 99]" in run(*audit, status=1).stdout
