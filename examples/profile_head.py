"""A few steps of the LM head for a profiler to look at: forward and backward of `linear_logp` in bfloat16.

    python examples/profile_head.py                 # torch's profiler: a table of kernels
    nsys profile --capture-range=cudaProfilerApi python examples/profile_head.py --external

With --external the steps, after two of warming up, are between cudaProfilerStart and cudaProfilerStop.
"""

import argparse

# --8<-- [start:profile]
import torch
from torch.profiler import ProfilerActivity, profile

import samebits as sb


def table_of_kernels(step, on_gpu):
    """What torch's profiler saw while `step` ran three times, the longest first."""
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    with profile(activities=activities) as seen:
        for _ in range(3):
            step()
    return seen.key_averages().table(sort_by=f"self_{'cuda' if on_gpu else 'cpu'}_time_total", row_limit=20)


# --8<-- [end:profile]
parser = argparse.ArgumentParser(description="Steps of the LM head for a profiler to look at.")
parser.add_argument("--device", default="cuda")
parser.add_argument("--tokens", type=int, default=8192)
parser.add_argument("--vocab", type=int, default=131072)
parser.add_argument("--hidden", type=int, default=2688)
parser.add_argument("--external", action="store_true", help="for nsys and ncu: no profiler of torch's (CUDA)")
options = parser.parse_args()

hidden = torch.randn(options.tokens, options.hidden, device=options.device).bfloat16().requires_grad_()
weight = (
    (torch.randn(options.vocab, options.hidden, device=options.device) * 0.02).bfloat16().requires_grad_()
)
targets = torch.randint(options.vocab, (options.tokens,), device=options.device)


def step():
    """Forward and backward; the gradients are dropped."""
    sb.linear_logp(hidden, weight, targets, memory="recompute").sum().backward()
    hidden.grad = weight.grad = None


for _ in range(2):
    step()
if options.external:
    with torch.cuda.profiler.profile():
        for _ in range(3):
            step()
else:
    print(table_of_kernels(step, options.device.startswith("cuda")))
print("plan:", *sb.plan("linear_logp", hidden, weight, targets).kernels)
