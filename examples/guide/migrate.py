"""Snippets of docs/migration/: what calls of other libraries become, held against PyTorch's composition."""

import torch
import torch.nn.functional as F

import samebits as sb

generator = torch.Generator().manual_seed(0)
hidden = torch.randn(2, 5, 64, generator=generator).requires_grad_()
weight = (torch.randn(500, 64, generator=generator) / 8).requires_grad_()
targets = torch.randint(0, 500, (2, 5), generator=generator)
targets[0, 3:] = -100
logits = (hidden @ weight.T).detach()


def close(ours, theirs):
    """Equal up to the rounding of two different orders of operations in fp32."""
    return torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5)


# --8<-- [start:mean]
# cross entropy, mean over the tokens that count (an id outside the vocabulary, such as -100, does not)
logp = sb.logp(logits, targets)
loss = -logp.sum() / (targets >= 0).sum()
# --8<-- [end:mean]
assert close(loss, F.cross_entropy(logits.flatten(0, 1), targets.flatten()))

# --8<-- [start:fused]
# the same from hidden states: the logits are never stored
logp = sb.linear_logp(hidden, weight, targets)
loss = -logp.sum() / (targets >= 0).sum()
loss.backward()
# --8<-- [end:fused]
assert close(loss, F.cross_entropy((hidden @ weight.T).flatten(0, 1), targets.flatten()))

# --8<-- [start:z_loss]
out = sb.linear_logp(hidden, weight, targets, return_lse=True)
counts = targets >= 0
z_loss = 1e-4 * (out.lse.masked_fill(~counts, 0) ** 2).sum() / counts.sum()  # the lse of padding is -inf
# --8<-- [end:z_loss]
assert close(z_loss, 1e-4 * (logits.logsumexp(-1)[counts] ** 2).mean())

# --8<-- [start:shift]
# next-token prediction: slices are read where they lie, nothing is copied
next_logp = sb.linear_logp(hidden[:, :-1], weight, targets[:, 1:])
# --8<-- [end:shift]
assert close(next_logp[1], F.log_softmax(logits[1, :-1], -1).gather(-1, targets[1, 1:, None])[:, 0])

# --8<-- [start:policy]
# what a policy update needs: log-probs and entropy at the sampling temperature
out = sb.linear_logp(hidden, weight, targets, temperature=0.7, return_entropy=True)
# --8<-- [end:policy]
scaled = F.log_softmax(logits / 0.7, -1)
assert close(out.logp[1], scaled[1].gather(-1, targets[1, :, None])[:, 0])
assert close(out.entropy[1], -(scaled[1].exp() * scaled[1]).sum(-1))

# --8<-- [start:rl_kernel]
from samebits.compat.rl_kernel import LogpOp  # noqa: E402

logp_op = (
    LogpOp()
)  # was kernel_registry.get_op("logp"), or NativeLogpOp(), FusedLogpGenericOp(), DeterministicLogpCUDAOp()
# --8<-- [end:rl_kernel]
assert torch.equal(logp_op(logits, targets), sb.logp(logits, targets))
