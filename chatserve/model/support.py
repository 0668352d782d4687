"""Whether a config describes a model that can be computed faithfully, asked before its weights are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chatserve.model.by_transformers import rope_formulas
from chatserve.model.description import Config
from chatserve.model.errors import UnsupportedModel
from chatserve.model.rope import OWN

FULL = "full_attention"
WINDOWS = {"sliding_attention": "sliding_window", "chunked_attention": "attention_chunk_size"}
"""Layer types that see only so many tokens, and the setting that says how many."""


def context_limit(config: Config, asked: int | None) -> int:
    """Tokens of context: what was asked, within what the model was made for. Raises UnsupportedModel."""
    made_for = getattr(config.get_text_config(), "max_position_embeddings", None)
    if asked is not None and asked < 1:
        raise UnsupportedModel(f"a context of {asked} tokens was asked for; at least 1 is needed")
    limits = [limit for limit in (made_for, asked) if limit is not None]
    if not limits:
        raise UnsupportedModel(f"{config.model_type}: no max_position_embeddings in its config; give a max_len")
    return min(limits)


def check_config(config: Config, max_len: int) -> None:
    """Raises UnsupportedModel, naming what is not supported, when sequences of up to `max_len` tokens cannot be run."""
    name = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{name} is an encoder-decoder; only decoder-only models can run")
    text = config.get_text_config()
    check_heads(name, text)
    check_layers(name, text, max_len)
    check_rope(name, text, max_len)


def check_heads(name: str, config: Config) -> None:
    """Raises UnsupportedModel."""
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int):
        raise UnsupportedModel(f"{name}: num_attention_heads is {heads!r}; one number for all layers is needed")
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    if heads % kv_heads:
        raise UnsupportedModel(f"{name}: {heads} attention heads cannot be shared out over {kv_heads} KV heads")
    if getattr(config, "kv_lora_rank", None) is not None:
        raise UnsupportedModel(f"{name}: multi-head latent attention (kv_lora_rank) keeps no plain K and V")
    if getattr(config, "attn_logit_softcapping", None) is not None:
        raise UnsupportedModel(f"{name}: a soft cap on attention scores (attn_logit_softcapping) is not computed")
    if getattr(config, "alibi", False):
        raise UnsupportedModel(f"{name}: ALiBi position biases (alibi) are not computed")
    if getattr(config, "num_kv_shared_layers", 0):
        raise UnsupportedModel(f"{name}: layers that share the KV of others (num_kv_shared_layers)")


def check_layers(name: str, config: Config, max_len: int) -> None:
    """Raises UnsupportedModel. A window that no sequence can outgrow is no window."""
    for kind in sorted(layer_kinds(config)):
        if kind == FULL:
            continue
        if kind not in WINDOWS:
            raise UnsupportedModel(f"{name}: layers of type {kind!r}; only plain attention with K and V can run")
        window = getattr(config, WINDOWS[kind], None)
        if window is None or window < max_len:
            raise UnsupportedModel(
                f"{name}: layers of type {kind!r} see only {window} tokens; ask for a max_len up to that"
            )


def layer_kinds(config: Config) -> set[str]:
    """The kinds of attention its layers use. Old configs have no list: there a window that is on holds for all."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return set(kinds)
    windowed = getattr(config, "sliding_window", None) is not None and getattr(config, "use_sliding_window", True)
    return {"sliding_attention" if windowed else FULL}


def check_rope(name: str, config: Config, max_len: int) -> None:
    """Raises UnsupportedModel for a kind of rotary embedding that is unknown or changes with what else is running."""
    for rope in rope_settings(config):
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind not in OWN and kind not in rope_formulas():
            known = ", ".join(sorted({*OWN, *rope_formulas()}))
            raise UnsupportedModel(f"{name}: unknown rope type {kind!r} (known: {known})")
        original = rope.get("original_max_position_embeddings")
        if kind == "longrope" and original is not None and max_len > original:
            raise UnsupportedModel(
                f"{name}: rope type 'longrope' changes its angles past {original} tokens, where earlier K no longer "
                f"fits; ask for a max_len up to that"
            )


def rope_settings(config: Config) -> Iterator[Mapping[str, Any]]:
    """The settings of each kind of layer, or the one of all; nothing where there are none."""
    settings = getattr(config, "rope_parameters", None) or {}
    nested = [value for value in settings.values() if isinstance(value, Mapping)]
    yield from nested or [settings]
