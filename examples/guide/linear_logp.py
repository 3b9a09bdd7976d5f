"""Snippets of docs/operators/linear_logp.md."""

# --8<-- [start:first]
import torch

import samebits as sb

generator = torch.Generator().manual_seed(0)
hidden = torch.randn(6, 64, generator=generator).bfloat16().requires_grad_()
weight = (torch.randn(1000, 64, generator=generator) / 8).bfloat16().requires_grad_()
targets = torch.tensor([3, 14, 159, 265, 35, -100])  # the last position is padding

logp = sb.linear_logp(hidden, weight, targets)  # fp32, shape [6]; the logits are never stored
logp.sum().backward()
print(hidden.grad.dtype, weight.grad.shape)  # torch.bfloat16 torch.Size([1000, 64])
# --8<-- [end:first]
assert logp[5] == 0 and not hidden.grad[5].any()

# --8<-- [start:unfused]
# The fused head gives the bits of the unfused one: the product in fp32, then logp.
unfused = sb.logp(sb.matmul(hidden, weight.T, out_dtype=torch.float32), targets)
assert torch.equal(logp, unfused)
# --8<-- [end:unfused]

# --8<-- [start:layouts]
# Packed or padded, in any chunks: the same log-probs, and the same gradient of the weight.
packed, ids = hidden.detach()[:5].requires_grad_(), targets[:5]
alone = torch.autograd.grad(sb.linear_logp(packed, weight, ids).sum(), weight)[0]
assert torch.equal(alone, weight.grad)
assert torch.equal(sb.linear_logp(hidden[2:4], weight, targets[2:4]), logp[2:4])
# --8<-- [end:layouts]

# --8<-- [start:memory]
for memory in ("recompute", "save", 1 << 16):  # a budget changes time and memory, never a bit
    again = sb.linear_logp(hidden, weight, targets, memory=memory)
    assert torch.equal(torch.autograd.grad(again.sum(), weight)[0], weight.grad)
# --8<-- [end:memory]

# --8<-- [start:accumulator]
main_grad = torch.zeros(1000, 64)  # fp32, as Megatron keeps it
frozen = hidden.detach()
sb.linear_logp(frozen, weight, targets, grad_weight_accumulator=main_grad).sum().backward()
assert main_grad.abs().sum() > 0  # added before any rounding to bf16; weight.grad was left alone
# --8<-- [end:accumulator]
