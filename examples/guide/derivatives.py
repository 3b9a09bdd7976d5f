"""The snippet of docs/derivatives.md."""

# --8<-- [start:first]
import torch
from torch.func import grad, hessian, jvp, vmap

import samebits as sb

logits, targets = torch.randn(4, 32), torch.tensor([1, 5, 31, 0])


def loss(x):
    return -sb.logp(x, targets).sum()


step = torch.randn_like(logits)
hvp = jvp(grad(loss), (logits,), (step,))[1]  # Hessian times vector, forward over reverse
h = hessian(loss)(logits)  # [4, 32, 4, 32]
per_sample = vmap(grad(lambda x, t: sb.logp(x, t)))(logits, targets)  # one call, not four
# --8<-- [end:first]
assert torch.allclose((h.flatten(2) @ step.flatten()), hvp, atol=1e-5)
assert torch.equal(per_sample, -grad(loss)(logits))
