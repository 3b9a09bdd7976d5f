"""Snippets of docs/operators/reductions.md: a policy loss whose bits do not depend on the layout."""

# --8<-- [start:sum]
import torch

import samebits as sb

values = torch.tensor([1e8, 1.0, -1e8, 3.0])
print(sb.masked_sum(values).item())  # 4.0
shuffled = values[torch.tensor([0, 2, 1, 3])]
assert torch.equal(sb.masked_sum(values), sb.masked_sum(shuffled))  # an exact sum has no order

kept = torch.tensor([True, True, False, False])
print(sb.masked_mean(values, kept).item())  # 50000000.0
# --8<-- [end:sum]

# --8<-- [start:loss]
generator = torch.Generator().manual_seed(0)
logp = (-3 * torch.rand(2, 6, generator=generator)).requires_grad_()  # from sb.linear_logp
old_logp, reference_logp = logp.detach() - 0.1, logp.detach() + 0.05
advantages = torch.tensor([[1.0], [-0.5]]).expand(2, 6)
mask = torch.tensor([[True] * 4 + [False] * 2, [True] * 6])  # which tokens are part of a response

surrogate = sb.rl.clipped_ratio_loss(logp, old_logp, advantages, low=0.2, high=0.28)
loss = sb.masked_mean(surrogate + 0.04 * sb.rl.kl_k3(logp, reference_logp), mask)
loss.backward()
# --8<-- [end:loss]

# --8<-- [start:packed]
# The same tokens packed, and a mean for each sequence.
flat = [x.detach()[mask] for x in (logp, old_logp, reference_logp, advantages)]
terms = sb.rl.clipped_ratio_loss(*flat[:2], flat[3], low=0.2, high=0.28) + 0.04 * sb.rl.kl_k3(
    flat[0], flat[2]
)
assert torch.equal(sb.masked_mean(terms), loss)

sequence = torch.tensor([0] * 4 + [1] * 6)
print(sb.masked_mean(terms, segments=sequence, count=2).shape)  # torch.Size([2])
# --8<-- [end:packed]
