"""Snippets of docs/cli.md and docs/guides/audit.md: records for `samebits audit`, in the current folder."""

# --8<-- [start:logits]
import json

import torch
from safetensors.torch import save_file

import samebits as sb

logits = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)).bfloat16()
targets = torch.tensor([1, 10, 100, 999])

logp = sb.logp(logits, targets, temperature=0.7)
plan = sb.plan("logp", logits, targets, temperature=0.7)
save_file({"logits": logits, "targets": targets}, "step.safetensors")
save_file(
    {"logp": logp, "targets": targets},
    "step.logp.safetensors",
    {"samebits.provenance": json.dumps(plan.provenance)},
)
# --8<-- [end:logits]

# --8<-- [start:hidden]
hidden = torch.randn(4, 64, generator=torch.Generator().manual_seed(1)).bfloat16()
weight = torch.randn(1000, 64, generator=torch.Generator().manual_seed(2)).bfloat16()  # the LM head

with torch.no_grad():
    out = sb.linear_logp(hidden, weight, targets, temperature=0.7, return_lse=True)
plan = sb.plan("linear_logp", hidden, weight, targets, temperature=0.7)
save_file({"hidden": hidden.contiguous()}, "hidden.safetensors")
save_file(
    {"logp": out.logp, "lse": out.lse, "targets": targets.contiguous()},
    "logp.safetensors",
    {"samebits.provenance": json.dumps(plan.provenance)},
)
# --8<-- [end:hidden]

# The other files that audit.sh reads: a checkpoint, the same weight in two shards, logits as npy.
from pathlib import Path  # noqa: E402

import numpy  # noqa: E402

Path("checkpoint").mkdir(exist_ok=True)
save_file({"lm_head.weight": weight}, "checkpoint/model.safetensors")
for rank, part in enumerate(weight.chunk(2)):
    save_file({"lm_head.weight": part.clone()}, f"rank{rank}.safetensors")
numpy.save("logits.npy", logits.float().numpy())
numpy.save("targets.npy", targets.numpy())
