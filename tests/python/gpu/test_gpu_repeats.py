"""linear_logp on a GPU, again and again, while another stream keeps the GPU busy."""

import pytest
import torch

import samebits as sb
from support import bits

GPU = "cuda:0"
REPEATS = 1000


@pytest.mark.parametrize("shape", [(384, 20000, 512), (9000, 1000, 64)], ids=str)
@pytest.mark.parametrize("memory", ["recompute", "save"])
def test_a_thousand_steps_beside_a_busy_stream_have_one_result(shape, memory):
    rows, vocab, size = shape
    torch.manual_seed(0)
    hidden, weight = (torch.randn(n, size, device=GPU).bfloat16().requires_grad_() for n in (rows, vocab))
    targets = torch.randint(-vocab // 8, vocab, (rows,), device=GPU)
    upstream = torch.linspace(-2, 3, rows, device=GPU)

    def step():
        logp = sb.linear_logp(hidden, weight, targets, memory=memory)
        return logp.detach(), *torch.autograd.grad(logp, (hidden, weight), upstream)

    expected = [bits(value) for value in step()]
    differing = torch.zeros((), dtype=torch.int64, device=GPU)
    other, busy = torch.cuda.Stream(), torch.randn(2048, 2048, device=GPU).bfloat16()
    torch.cuda.synchronize()
    for _ in range(REPEATS):
        with torch.cuda.stream(other):
            busy @ busy
        for value, wanted in zip(step(), expected, strict=True):
            differing += (bits(value) != wanted).sum()
    torch.cuda.synchronize()
    assert int(differing) == 0
