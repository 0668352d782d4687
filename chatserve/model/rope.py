"""The rotary angles of every position, as transformers' own classes compute them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from chatserve.model.by_transformers import rope_formulas
from chatserve.model.description import Config


def rope_tables(config: Config, max_len: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of positions 0 … max_len - 1: float32 [max_len, head_dim // 2] each, the scaling's factor in them."""
    kind = kind_of(config)
    frequencies, factor = OWN[kind](config) if kind in OWN else rope_formulas()[kind](config)
    positions = torch.arange(max_len, dtype=torch.float32, device=device)
    angles = torch.outer(positions, frequencies.to(device))
    return angles.cos() * factor, angles.sin() * factor


def kind_of(config: Config) -> str:
    """The rope type, of a model whose layers all have the same."""
    kind: str = settings_of(config)["rope_type"]
    return kind


def settings_of(config: Any) -> dict[str, Any]:
    """As transformers writes them today, whatever age the config is of."""
    settings: dict[str, Any] = config.rope_parameters
    return settings


def default(config: Any) -> tuple[torch.Tensor, float]:
    """Inverse frequencies [head_dim // 2], and the factor on cos and sin."""
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    exponents = torch.arange(0, dim, 2, dtype=torch.float32) / dim
    return 1.0 / settings_of(config)["rope_theta"] ** exponents, 1.0


def llama3(config: Any) -> tuple[torch.Tensor, float]:
    """Long waves are stretched by a factor, short ones not, those between in part."""
    settings, (frequencies, factor) = settings_of(config), default(config)
    low, high = settings["low_freq_factor"], settings["high_freq_factor"]
    turns = settings["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return frequencies * kept + frequencies / settings["factor"] * (1.0 - kept), factor


OWN: dict[str, Callable[[Any], tuple[torch.Tensor, float]]] = {"default": default, "llama3": llama3}
"""By rope type, those that wide-spread models have; all others are transformers' functions."""
