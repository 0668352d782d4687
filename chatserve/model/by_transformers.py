"""What transformers does for a model, imported by name when it must: its modules take longer to import than weights to
load.
"""

from __future__ import annotations

import importlib
from typing import Any

DESCRIBING = "chatserve.model.transformers_files"
COMPUTING = "chatserve.model.transformers_model"
ROPE = "transformers.modeling_rope_utils"


def describing() -> Any:
    """Reads whatever files a model comes in."""
    return importlib.import_module(DESCRIBING)


def computing() -> Any:
    """Reads weights of every format, and computes every architecture."""
    return importlib.import_module(COMPUTING)


def rope_formulas() -> Any:
    """By rope type: config -> (inverse frequencies, factor on cos and sin), for all but "default"."""
    return importlib.import_module(ROPE).ROPE_INIT_FUNCTIONS
