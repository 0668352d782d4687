"""Which models the fused decoder computes, and what it must know of each: read from the config alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chatserve.model.description import Config
from chatserve.model.support import FULL, WINDOWS, layer_kinds, rope_settings


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes and options of a decoder.

    eps: of all its norms.  tied: the output layer is the embedding.
    qkv_bias, o_bias, mlp_bias: whether those products add one.  head_norms: whether query and key heads are normed.
    spread: the standard deviation that untrained weights begin with.
    """

    layers: int
    hidden: int
    inter: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    eps: float
    tied: bool
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    head_norms: bool
    spread: float

    @property
    def qkv_rows(self) -> int:
        """Of the fused weight: query heads, then key heads, then value heads."""
        return (self.heads + 2 * self.kv_heads) * self.head_dim


@dataclass(frozen=True, slots=True)
class Options:
    """What differs between the architectures."""

    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False


FAMILY: dict[str, Callable[[Any], Options]] = {
    "llama": lambda config: Options(config.attention_bias, config.attention_bias, config.mlp_bias),
    "mistral": lambda _: Options(),
    "qwen2": lambda _: Options(qkv_bias=True),
    "qwen3": lambda config: Options(config.attention_bias, config.attention_bias, head_norms=True),
}
"""Each architecture's options, as transformers' class of that name reads them. (Yi and SmolLM2 are llama.)"""


def decoder_shape(config: Config, max_len: int) -> DecoderShape | str:
    """The shape, or a sentence that says why the fused decoder does not compute sequences of `max_len` tokens of it."""
    reason = why_not(config, max_len)
    if reason is not None:
        return f"{config.model_type}: {reason}"
    c: Any = config
    options = FAMILY[config.model_type](config)
    return DecoderShape(
        layers=c.num_hidden_layers,
        hidden=c.hidden_size,
        inter=c.intermediate_size,
        heads=c.num_attention_heads,
        kv_heads=c.num_key_value_heads or c.num_attention_heads,
        head_dim=getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads,
        vocab=c.vocab_size,
        eps=c.rms_norm_eps,
        tied=bool(c.tie_word_embeddings),
        qkv_bias=options.qkv_bias,
        o_bias=options.o_bias,
        mlp_bias=options.mlp_bias,
        head_norms=options.head_norms,
        spread=c.initializer_range,
    )


def why_not(config: Any, max_len: int) -> str | None:
    """The first thing of it that is not computed; None where all is."""
    if config.model_type not in FAMILY:
        return f"not one of {', '.join(FAMILY)}"
    if getattr(config, "quantization_config", None) is not None:
        return "its weights are quantized (quantization_config)"
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act!r}, not 'silu'"
    for kind in sorted(kinds_of_layers(config)):
        window = getattr(config, WINDOWS[kind], None) if kind in WINDOWS else None
        if kind != FULL and (window is None or window < max_len):
            return f"layers of type {kind!r} (window {window}) in sequences of up to {max_len} tokens"
    for rope in rope_settings(config):
        part = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None))
        if part not in (None, 1, 1.0):
            return f"only a part of each head is rotated (partial_rotary_factor {part})"
    return None


def kinds_of_layers(config: Any) -> set[str]:
    """As transformers computes them: Mistral's window holds for all layers, whatever types its config lists."""
    if config.model_type == "mistral" and config.sliding_window is not None:
        return {"sliding_attention"}
    return layer_kinds(config)
