"""Every use of a torch name that is not public, tested with torch 2.10, 2.11 and 2.15.

A torch without one of them is treated as if a transform were active: slower by microseconds, same results.
"""

import torch
from torch.autograd import forward_ad

_functorch_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)


def tangents_active() -> bool:
    """True inside a forward-mode level, where a plain operator call would drop the tangent unsaid."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def transforms_active() -> bool:
    """True under any torch.func transform or forward-mode level."""
    return _functorch_active() or tangents_active()
