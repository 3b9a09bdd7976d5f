"""samebits: log-probabilities with the same bits everywhere.

Selected-token log-probabilities for reinforcement learning of language models, whose bits depend on the row
alone: not on the batch, padding, packing, chunking, thread count, backend or instruction set.
"""

from ._native import version as __version__  # first: refuses a torch or a library that does not fit

# isort: split
from . import _fake, _vmap, rl  # noqa: F401  shapes for torch.compile, and vmap of the operators
from ._backends import Backend, Choice, backends
from ._embedding import embedding
from ._errors import NotDifferentiableError
from ._linear import linear, matmul
from ._linear_logp import linear_logp
from ._logp import LogpEntropy, LogpLse, LogpLseEntropy, logp
from ._masked import masked_mean, masked_sum
from ._plan import Plan, plan, require_same

__all__ = [
    "Backend",
    "Choice",
    "LogpEntropy",
    "LogpLse",
    "LogpLseEntropy",
    "NotDifferentiableError",
    "Plan",
    "__version__",
    "backends",
    "embedding",
    "linear",
    "linear_logp",
    "logp",
    "masked_mean",
    "masked_sum",
    "matmul",
    "plan",
    "require_same",
    "rl",
]
