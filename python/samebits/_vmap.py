"""vmap of a call that records nothing: one operator call for all samples.

Rules on the operators themselves cost half of what an autograd Function costs under vmap. Row lists never get
here: `logp` makes them masks under a transform.
"""

import torch

from ._fold import fold

_logp = torch.ops.samebits.logp.default
_logp_forward = torch.ops.samebits.logp_forward.default


@torch.library.register_vmap("samebits::logp")
def _(info, in_dims, logits, targets, row_temperature=None, rows=None, *options):
    per_row = _per_row(info, in_dims, logits, targets, row_temperature)
    return _logp(*per_row, None, *options), 0


@torch.library.register_vmap("samebits::logp_forward")
def _(info, in_dims, logits, targets, lse, entropy, stats, row_temperature=None, rows=None, *options):
    per_row = _per_row(info, (*in_dims[:2], *in_dims[5:6]), logits, targets, row_temperature)
    results = _logp_forward(*per_row[:2], lse, entropy, stats, per_row[2], None, *options)
    return results, (0, 0 if lse else None, 0 if entropy else None, None, None, None)


def _per_row(info, in_dims, *tensors):
    return [fold(info.batch_size, d, t) for d, t in zip((*in_dims, None), tensors, strict=False)]
