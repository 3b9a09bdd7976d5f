"""Snippets of docs/operators/logp.md, in the order of the page."""

# --8<-- [start:first]
import torch

import samebits as sb

logits = torch.tensor([[2.0, 1.0, 0.0, -1.0], [0.5, 0.1, -0.2, 1.7]])
targets = torch.tensor([0, 3])
logp = sb.logp(logits, targets)
print(logp)  # tensor([-0.4402, -0.5024])
# --8<-- [end:first]
assert torch.allclose(logp, torch.tensor([-0.4402, -0.5024]), atol=1e-4)

# --8<-- [start:outputs]
result = sb.logp(logits, targets, temperature=0.7, return_lse=True, return_entropy=True)
print(result.logp, result.lse, result.entropy)

# One temperature a row: the row's bits are those of a call with that number.
mixed = sb.logp(logits, targets, temperature=torch.tensor([0.7, 1.0]))
assert torch.equal(mixed[0], result.logp[0]) and torch.equal(mixed[1], logp[1])
# --8<-- [end:outputs]

# --8<-- [start:padding]
padded = torch.tensor([0, -100])  # any id outside [0, V) is padding
print(sb.logp(logits, padded))  # tensor([-0.4402,  0.0000])
print(sb.logp(logits, padded, on_invalid="nan"))  # tensor([-0.4402,     nan])
try:
    sb.logp(logits, padded, on_invalid="raise")
except ValueError as error:
    print(error)  # targets: has id -100 at row 1; ids must be within [0, 4)
# --8<-- [end:padding]
assert sb.logp(logits, padded)[1] == 0
assert sb.logp(logits, padded, on_invalid="nan")[1].isnan()

# --8<-- [start:rows]
buffer = torch.full((2,), 7.0)  # row 0 is not asked for
sb.logp(logits, targets, rows=torch.tensor([1]), out=buffer)
print(buffer)  # tensor([ 7.0000, -0.5024])
# --8<-- [end:rows]
assert buffer[0] == 7 and torch.equal(buffer[1], logp[1])

# --8<-- [start:alone]
batch = torch.randn(512, 5000, generator=torch.Generator().manual_seed(0)).bfloat16()
ids = torch.arange(512)
whole = sb.logp(batch, ids)
for size in (1, 7, 64):
    assert torch.equal(whole[:size], sb.logp(batch[:size], ids[:size]))
# --8<-- [end:alone]
