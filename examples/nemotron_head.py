"""The LM head of Nemotron-3-Nano-30B-A3B on a CPU: rollout and training of the same tokens, bit for bit.

python examples/nemotron_head.py             # random weights of the real sizes: some 3 GB of memory, seconds
python examples/nemotron_head.py FOLDER ID   # the published weights, in a folder; ID such as NAME@REVISION
"""

import sys
import time

import torch

import samebits as sb
from samebits.models.nemotron_h import GEOMETRY, LMHeadLogprob

TOKENS = 4

started = time.perf_counter()
if len(sys.argv) == 3:
    folder, checkpoint = sys.argv[1:]
    head = LMHeadLogprob.from_checkpoint(folder, checkpoint=checkpoint, device="cpu", device_contract="twin")
else:
    generator = torch.Generator().manual_seed(0)
    part = torch.randn(GEOMETRY.vocab // 32, GEOMETRY.hidden, generator=generator).bfloat16()
    weight = part.repeat(32, 1)
    # device_contract="twin": a CPU computes what a proven GPU computes. On a GPU leave it out.
    head = LMHeadLogprob(weight, checkpoint="random@seed-0", device_contract="twin")
head.requires_grad_()
print(f"{head}, ready after {time.perf_counter() - started:.1f} s")

hidden = (torch.randn(TOKENS, GEOMETRY.hidden, generator=torch.Generator().manual_seed(1)) / 30).bfloat16()
targets = torch.randint(0, GEOMETRY.vocab, (TOKENS,), generator=torch.Generator().manual_seed(2))

# The rollout engine decodes one token at a time ...
rollout = torch.cat([head.rollout_logp(hidden[t : t + 1], targets[t : t + 1]) for t in range(TOKENS)])
rollout_provenance = head.provenance()

# ... the trainer computes them padded, in one batch, with a graph.
padded = torch.zeros(2, TOKENS, GEOMETRY.hidden, dtype=torch.bfloat16)
ids = torch.full((2, TOKENS), -100)
padded[0], ids[0] = hidden, targets
padded.requires_grad_()
trained = head.train_logp(padded, ids)
trained.sum().backward()

sb.require_same(rollout_provenance, head.provenance())
differing = int((trained[0].detach().view(torch.int32) != rollout.view(torch.int32)).sum())
ratio = (trained[0].detach() - rollout).exp()
print(f"log-probs whose bits differ between rollout and training: {differing} of {TOKENS}")
print(f"policy ratios: {ratio.min():.8f} to {ratio.max():.8f}")
print(f"contract {rollout_provenance['contract']}, computed by {', '.join(rollout_provenance['kernels'])}")
print(f"done after {time.perf_counter() - started:.1f} s")
sys.exit(differing != 0)
