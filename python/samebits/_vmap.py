"""vmap of a call that records nothing: one operator call for all samples.

Rules on the operators themselves cost half of what an autograd Function costs under vmap. Row lists never get
here: `logp` makes them masks under a transform.
"""

import torch

from ._fold import flat_rows, fold, shaped

_logp = torch.ops.samebits.logp.default
_logp_forward = torch.ops.samebits.logp_forward.default


@torch.library.register_vmap("samebits::logp")
def _(info, in_dims, logits, targets, row_temperature=None, rows=None, *options):
    shape, per_row = _per_row(info, in_dims, logits, targets, row_temperature)
    return shaped(_logp(*per_row, None, *options), shape), 0


@torch.library.register_vmap("samebits::logp_forward")
def _(info, in_dims, logits, targets, lse, entropy, stats, row_temperature=None, rows=None, *options):
    shape, per_row = _per_row(info, (*in_dims[:2], *in_dims[5:6]), logits, targets, row_temperature)
    results = _logp_forward(*per_row[:2], lse, entropy, stats, per_row[2], None, *options)
    asked = (True, lse, entropy)
    values = (shaped(v, shape) if a else v for v, a in zip(results[:3], asked, strict=True))
    return (*values, *results[3:]), (*(0 if a else None for a in asked), None, None, None)


def _per_row(info, in_dims, logits, targets, row_temperature):
    """The shape of all samples' targets; logits, targets and row_temperature as an operator takes them."""
    tensors = (logits, targets, row_temperature)
    folded = [fold(info.batch_size, d, t) for d, t in zip((*in_dims, None), tensors, strict=False)]
    shape = folded[1].shape
    return shape, [flat_rows(t, len(shape), trailing) for t, trailing in zip(folded, (1, 0, 0), strict=True)]
