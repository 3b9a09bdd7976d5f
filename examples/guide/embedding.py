"""Snippets of docs/operators/embedding.md."""

# --8<-- [start:first]
import torch

import samebits as sb

weight = torch.randn(35, 8, generator=torch.Generator().manual_seed(0)).bfloat16().requires_grad_()
ids = torch.tensor([[4, 4, 9], [9, 4, 0]])

rows = sb.embedding(ids, weight, padding_idx=0)  # [2, 3, 8]
rows.sum().backward()
# Three positions have id 4; row 0 is padding.
print(weight.grad[4, 0].item(), weight.grad[0, 0].item())  # 3.0 0.0
# --8<-- [end:first]
assert weight.grad[4, 0] == 3 and weight.grad[0, 0] == 0

# --8<-- [start:many]
# 3,000 positions with one id. A running sum held in bf16 would stop at 256;
# this one is rounded to bf16 once, and 3008 is next to 3000.
many = torch.full((3000,), 7)
weight.grad = None
sb.embedding(many, weight).sum().backward()
print(weight.grad[7, 0].item())  # 3008.0
# --8<-- [end:many]
assert weight.grad[7, 0] == torch.tensor(3000.0).bfloat16()

# --8<-- [start:accumulator]
main_grad = torch.zeros(35, 8)
sb.embedding(many, weight, grad_accumulator=main_grad).sum().backward()
assert main_grad[7, 0] == 3000
# --8<-- [end:accumulator]
