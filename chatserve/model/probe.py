"""What a module's attention really asks for, learned by running one token through it.

A config says what a model means to be; the calls its layers make say what it is. Whatever the slots cannot hold or the
kernels do not compute is refused here, whichever architecture it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from chatserve.model.errors import UnsupportedModel
from chatserve.model.loaded import KVShape

NAME = "chatserve-probe"
FEATURES = {
    "softcap": "a soft cap on attention scores",
    "s_aux": "attention sinks",
    "position_bias": "a position bias on attention scores",
    "alibi": "ALiBi position biases",
    "head_mask": "a head mask",
}
"""Keyword arguments of transformers' attention interface that change the result."""


@dataclass(frozen=True, slots=True)
class Call:
    """One layer's call. Shapes without batch: (heads, rows, head_dim)."""

    layer: int
    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    causal: bool
    masked: bool
    window: int | None
    features: tuple[str, ...]


class Recorder:
    """Collects the calls of one forward."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def record(self, call: Call) -> None:
        self.calls.append(call)


def recording_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    recorder: Recorder,
    sliding_window: int | None = None,
    **features: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over one token is its value; so the forward goes on."""
    recorder.record(
        Call(
            layer=getattr(module, "layer_idx", -1),
            query=tuple(query.shape[1:]),
            key=tuple(key.shape[1:]),
            value=tuple(value.shape[1:]),
            causal=bool(getattr(module, "is_causal", True)),
            masked=attention_mask is not None,
            window=sliding_window,
            features=tuple(name for name in FEATURES if features.get(name) is not None),
        )
    )
    group = max(1, query.shape[1] // key.shape[1])
    return value.repeat_interleave(group, dim=1).transpose(1, 2), None


def probe(module: PreTrainedModel, max_len: int) -> KVShape:
    """Run one token and check every layer's call. Raises UnsupportedModel."""
    AttentionInterface.register(NAME, recording_attention)
    module.set_attn_implementation(NAME)
    recorder = Recorder()
    token = torch.zeros(1, 1, dtype=torch.int64, device=module.device)
    try:
        with torch.inference_mode():
            module(input_ids=token, position_ids=token, use_cache=False, logits_to_keep=1, recorder=recorder)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        raise UnsupportedModel(f"{type(module).__name__} does not run as a plain decoder: {error}") from error
    return kv_shape(type(module).__name__, module.config.get_text_config().num_hidden_layers, recorder.calls, max_len)


def kv_shape(name: str, layers: int, calls: list[Call], max_len: int) -> KVShape:
    """The shape all calls agree on. Raises UnsupportedModel."""
    if [call.layer for call in calls] != list(range(layers)):
        called = len(calls)
        raise UnsupportedModel(
            f"{name}: {called} attention calls for {layers} layers; only models whose every layer keeps K and V of its "
            "own and goes through transformers' attention interface can run"
        )
    for call in calls:
        refuse_features(name, call, max_len)
    heads, _, head_dim = calls[0].query
    shapes = sorted({call.key for call in calls} | {call.value for call in calls})
    if len(shapes) != 1:
        raise UnsupportedModel(f"{name}: K and V are not of one shape in all layers: {shapes}")
    kv_heads, _, kv_dim = shapes[0]
    if kv_dim != head_dim or heads % kv_heads:
        raise UnsupportedModel(f"{name}: {heads} query heads of {head_dim} over {kv_heads} KV heads of {kv_dim}")
    return KVShape(layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim)


def refuse_features(name: str, call: Call, max_len: int) -> None:
    """Raises UnsupportedModel for what the kernels do not compute."""
    where = f"{name}, layer {call.layer}"
    for feature in call.features:
        raise UnsupportedModel(f"{where}: {FEATURES[feature]} ({feature}) is not computed here")
    if call.window is not None and call.window < max_len:
        raise UnsupportedModel(f"{where}: a sliding window of {call.window} tokens; ask for a max_len up to that")
    if not call.causal or call.masked:
        raise UnsupportedModel(f"{where}: its attention is not plainly causal")
