"""Does this machine keep the contracts? Small calls of every operator against the CPU's scalar backend.

python examples/smoke.py          # the GPU
python examples/smoke.py cpu      # the CPU's SIMD kernels

One line for each operator, dtype and contract. Exit status 0: no bit differs and nothing is refused;
1: otherwise; 2: there is no such device.
"""

import sys

import torch

import samebits as sb

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda"
TOKENS, VOCAB, SIZE = 37, 1003, 136
DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


def normal(dtype, rows, columns, seed):
    """The same numbers wherever this torch runs."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator, dtype=torch.float64).to(dtype)


def step(function, device, backend, *operands):
    """The result of a call, and its gradients, on the CPU."""
    operands = [x.to(device, copy=True) for x in operands]
    leaves = [x.requires_grad_() for x in operands if x.is_floating_point()]
    result = function(*operands, backend=backend)
    return [x.detach().cpu() for x in (result, *torch.autograd.grad(result.sum(), leaves))]


def cases():
    """(name, function, operands)"""
    targets = torch.arange(TOKENS) * 31 % VOCAB
    targets[::5] = -100
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        logits, hidden = normal(dtype, TOKENS, VOCAB, seed=1), normal(dtype, TOKENS, SIZE, seed=2)
        weight = normal(dtype, VOCAB, SIZE, seed=3)
        yield f"logp {name}", sb.logp, (logits, targets)
        yield f"embedding {name}", sb.embedding, (targets.clamp(min=0), weight)
        for contract in ("tc16", "fma") if dtype.itemsize == 2 else ("auto",):

            def product(x, w, backend, contract=contract):
                return sb.matmul(x, w.T, contract=contract, backend=backend)

            def head(x, w, t, backend, contract=contract):
                return sb.linear_logp(x, w, t, contract=contract, backend=backend)

            yield f"matmul {name} {contract}", product, (hidden, weight)
            yield f"linear_logp {name} {contract}", head, (hidden, weight, targets)


def differing(left, right):
    """How many values have other bits."""
    size = left.element_size()
    unequal = left.contiguous().view(torch.uint8) != right.contiguous().view(torch.uint8)
    return int(unequal.view(-1, size).any(-1).sum())


if reasons := sb.plan("logp", device=DEVICE).refusals:
    print(*reasons, sep="\n")
    sys.exit(2)
problems = 0
for name, function, operands in cases():
    expected = step(function, "cpu", "scalar", *operands)
    try:
        found = step(function, DEVICE, None, *operands)
    except RuntimeError as error:
        outcome = f"REFUSED: {error}"
    else:
        count = sum(differing(a, b) for a, b in zip(found, expected, strict=True))
        outcome = f"{count} VALUES DIFFER" if count else "same bits"
    problems += outcome != "same bits"
    print(f"{name}: {outcome}")
provenance = sb.plan("linear_logp", dtype=torch.bfloat16, device=DEVICE).provenance
for key in ("device_name", "device_probe", "kernels"):
    print(f"{key}: {provenance.get(key, 'none')}")
print("as promised" if problems == 0 else f"{problems} PROBLEMS")
sys.exit(problems != 0)
