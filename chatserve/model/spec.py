"""What the rest of the house needs to know of a loaded model: plain values, free of torch."""

from __future__ import annotations

import msgspec

from chatserve.model.sampling import SamplingDefaults


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a model and its limits.

    max_len: tokens of context, prompt and answer together.
    dtype: of weights and KV: "float32", "bfloat16" or "float16".
    end_ids: the union of every source that names an end token (tokenizer, config, generation settings).
    """

    name: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_len: int
    dtype: str
    end_ids: tuple[int, ...]
    defaults: SamplingDefaults
