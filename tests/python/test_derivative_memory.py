"""How many row-sized temporaries a second-order pass holds at once."""

import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import samebits as sb


class PeakMemory(TorchDispatchMode):
    """Bytes of storages born inside the mode and alive at once."""

    def __init__(self):
        """Nothing is alive yet."""
        super().__init__()
        self.alive = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Count storages that come out and did not go in."""
        result = func(*args, **(kwargs or {}))
        given = {
            t.untyped_storage()._cdata for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)
        }
        for tensor in tree_leaves(result):
            storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage._cdata not in given | self.known:
                self._add(storage._cdata, storage.nbytes())
                weakref.finalize(storage, self._drop, storage._cdata, storage.nbytes())
        return result

    def _add(self, key, size):
        self.known.add(key)
        self.alive += size
        self.peak = max(self.peak, self.alive)

    def _drop(self, key, size):
        self.known.discard(key)
        self.alive -= size


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("entropy", [False, True], ids=["logp", "entropy"])
def test_a_second_order_reverse_pass_holds_at_most_six_rows_of_temporaries(dtype, entropy):
    logits = torch.randn(4, 4096).to(dtype).requires_grad_()
    targets, direction = torch.randint(0, 4096, (4,)), torch.randn(4, 4096).to(dtype)
    values = sb.logp(logits, targets, return_entropy=True)
    scalar = values.entropy.sum() if entropy else values.logp.sum()
    (gradient,) = torch.autograd.grad(scalar, logits, create_graph=True)
    memory = PeakMemory()
    with memory:
        torch.autograd.grad(gradient, logits, direction)
    row = logits.numel() * (8 if dtype == torch.float64 else 4)  # as computed with, for 16-bit logits too
    assert 1 < memory.peak / row < (6.01 if entropy else 4.01)
