"""The rotary angles of every position, as transformers' own class for the architecture computes them."""

from __future__ import annotations

import importlib

import torch
from transformers import PreTrainedConfig

ROTARY = {
    "llama": ("transformers.models.llama.modeling_llama", "LlamaRotaryEmbedding"),
    "mistral": ("transformers.models.mistral.modeling_mistral", "MistralRotaryEmbedding"),
    "qwen2": ("transformers.models.qwen2.modeling_qwen2", "Qwen2RotaryEmbedding"),
    "qwen3": ("transformers.models.qwen3.modeling_qwen3", "Qwen3RotaryEmbedding"),
}
"""Module and class by model_type; imported when wanted, because modelling code takes a second to import.

Whatever scaling a config asks for, and its factor on the attention, is inside.
"""


def rope_tables(config: PreTrainedConfig, max_len: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin of positions 0 … max_len - 1: float32 [max_len, head_dim // 2] each.

    transformers lays the angles of both halves of a head side by side; they are the same, and one is kept.
    """
    module, name = ROTARY[config.model_type]
    rotary = getattr(importlib.import_module(module), name)(config)
    like = torch.empty(0, dtype=torch.float32, device=device)
    positions = torch.arange(max_len, device=device).unsqueeze(0)
    with torch.no_grad():
        tables = rotary.to(device)(like, positions)
    cos, sin = (table[0, :, : table.shape[-1] // 2].contiguous() for table in tables)
    return cos, sin
