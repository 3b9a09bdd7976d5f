"""scikit-build-core, with one check in front: torch must be there before anything is downloaded or built.

A plain `pip install .` builds in an isolated environment, which has no torch. Without this check pip would
first download torch for the result and only then find that the result cannot be built.
"""

import importlib.util
import os
import sys

from scikit_build_core import build as _backend
from scikit_build_core.build import (  # noqa: F401
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)


def _require_torch() -> None:
    if os.environ.get("SAMEBITS_TORCH", "ON") == "ON" and importlib.util.find_spec("torch") is None:
        sys.exit(
            "samebits: torch >= 2.10 must be in the environment that builds it; install torch, "
            "scikit-build-core, cmake and ninja, then run: pip install --no-build-isolation .   "
            "(SAMEBITS_TORCH=OFF builds the C++ package alone)"
        )


def get_requires_for_build_wheel(config_settings=None):
    """The first thing an installer asks."""
    _require_torch()
    return _backend.get_requires_for_build_wheel(config_settings)


def get_requires_for_build_editable(config_settings=None):
    """The first thing an installer asks for `-e`."""
    _require_torch()
    return _backend.get_requires_for_build_editable(config_settings)
