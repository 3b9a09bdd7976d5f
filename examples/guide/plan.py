"""Snippets of docs/operators/plan.md."""

# --8<-- [start:first]
import json

import torch

import samebits as sb

hidden, weight = torch.randn(4, 64).bfloat16(), torch.randn(1000, 64).bfloat16()
targets = torch.arange(4)

plan = sb.plan("linear_logp", hidden, weight, targets, temperature=0.7)
print(plan.contract, plan.level)  # tc16.v1+row.v1 cross_device
print(json.dumps(plan.provenance, indent=1))
# --8<-- [end:first]
assert plan.contract == "tc16.v1+row.v1" and plan.can_run

# --8<-- [start:same]
recorded = json.loads(json.dumps(plan.provenance))  # stored with the log-probs, read back elsewhere
sb.require_same(recorded, plan)

other = sb.plan("linear_logp", hidden, weight, targets, temperature=1.0)
try:
    sb.require_same(recorded, other)
except ValueError as error:
    print(error)  # provenances differ in semantics.temperature: ...
# --8<-- [end:same]
try:
    sb.require_same(recorded, other)
    raise AssertionError("two temperatures are not the same")
except ValueError as error:
    assert "semantics.temperature" in str(error)

# --8<-- [start:refused]
refused = sb.plan("matmul", dtype=torch.float32, contract="tc16")
print(refused.can_run, refused.refusals)
for choice in plan.backends:
    print(choice.name, choice.taken, choice.reason)
# --8<-- [end:refused]
assert not refused.can_run and "tc16 takes bfloat16 or float16" in refused.refusals[0]
