import torch

import samebits as sb

logits = torch.randn(4, 1000, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
targets = torch.tensor([1, 10, 100, 999])

logp = sb.logp(logits, targets)  # fp32, shape [4]
logp.sum().backward()  # one read and one write of the logits

# A row does not see its neighbours: alone or in a batch, the same bits.
alone = sb.logp(logits[2:3], targets[2:3])
assert torch.equal(logp[2:3], alone)

# What ran, and what it promises. Two runs that promise equal bits can check it before they compare.
plan = sb.plan("logp", logits, targets)
print(plan.provenance)
sb.require_same(plan.provenance, sb.plan("logp", logits[2:3], targets[2:3]).provenance)
