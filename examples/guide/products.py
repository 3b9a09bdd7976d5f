"""Snippets of docs/operators/products.md."""

# --8<-- [start:first]
import torch

import samebits as sb

generator = torch.Generator().manual_seed(0)
a = torch.randn(300, 1280, generator=generator)
b = torch.randn(1280, 512, generator=generator)

product = sb.matmul(a, b)  # fp32: fma.v1
assert torch.equal(product[:1], sb.matmul(a[:1], b))  # a row does not see the others

half = sb.matmul(a.bfloat16(), b.bfloat16())  # 16 bits: tc16.v1, what a Hopper tensor core computes
wide = sb.matmul(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)  # the same sums, not rounded to 16 bits
assert torch.equal(wide.bfloat16(), half)
# --8<-- [end:first]

# --8<-- [start:linear]
weight = torch.randn(512, 1280, generator=generator, requires_grad=True)
bias = torch.zeros(512, requires_grad=True)
y = sb.linear(a, weight, bias)
y.sum().backward()
print(weight.grad.shape, bias.grad.shape)  # torch.Size([512, 1280]) torch.Size([512])
# --8<-- [end:linear]

# --8<-- [start:contract]
# Two contracts are two orders of operations: other bits.
ways = [
    sb.matmul(a.bfloat16(), b.bfloat16(), contract=name, out_dtype=torch.float32) for name in ("tc16", "fma")
]
print((ways[0] - ways[1]).abs().max())
# --8<-- [end:contract]
assert not torch.equal(*ways) and torch.allclose(*ways, atol=1e-3)
