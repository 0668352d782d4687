"""A decoder's weights on its device, products that share their input laid into one matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from chatserve.model.decoder_shape import DecoderShape


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer. Matrices are [out, in]; None is a bias or norm that the architecture has not.

    qkv: [(heads + 2 * kv_heads) * head_dim, hidden].  gate_up: [2 * inter, hidden], gate first.
    """

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: torch.Tensor
    o_bias: torch.Tensor | None
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor
    down_bias: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """embed, head: [vocab, hidden], the same tensor where they are tied.  norm: [hidden], the last one."""

    shape: DecoderShape
    embed: torch.Tensor
    layers: tuple[LayerWeights, ...]
    norm: torch.Tensor
    head: torch.Tensor


def empty_weights(shape: DecoderShape, dtype: torch.dtype, device: torch.device) -> DecoderWeights:
    """Room for all of it, nothing written yet."""

    def room(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device=device)

    def room_if(there: bool, size: int) -> torch.Tensor | None:
        return room(size) if there else None

    embed = room(shape.vocab, shape.hidden)
    layers = tuple(
        LayerWeights(
            input_norm=room(shape.hidden),
            qkv=room(shape.qkv_rows, shape.hidden),
            qkv_bias=room_if(shape.qkv_bias, shape.qkv_rows),
            q_norm=room_if(shape.head_norms, shape.head_dim),
            k_norm=room_if(shape.head_norms, shape.head_dim),
            o=room(shape.hidden, shape.heads * shape.head_dim),
            o_bias=room_if(shape.o_bias, shape.hidden),
            post_norm=room(shape.hidden),
            gate_up=room(2 * shape.inter, shape.hidden),
            gate_up_bias=room_if(shape.mlp_bias, 2 * shape.inter),
            down=room(shape.hidden, shape.inter),
            down_bias=room_if(shape.mlp_bias, shape.hidden),
        )
        for _ in range(shape.layers)
    )
    return DecoderWeights(
        shape=shape,
        embed=embed,
        layers=layers,
        norm=room(shape.hidden),
        head=embed if shape.tied else room(shape.vocab, shape.hidden),
    )


def named_tensors(weights: DecoderWeights) -> dict[str, torch.Tensor]:
    """Every tensor of a checkpoint, by the name it has there: views into the fused ones."""
    shape = weights.shape
    named: dict[str, torch.Tensor | None] = {
        "model.embed_tokens.weight": weights.embed,
        "model.norm.weight": weights.norm,
        "lm_head.weight": None if shape.tied else weights.head,
    }
    for index, layer in enumerate(weights.layers):
        named |= {f"model.layers.{index}.{name}": tensor for name, tensor in layer_tensors(shape, layer).items()}
    return {name: tensor for name, tensor in named.items() if tensor is not None}


def layer_tensors(shape: DecoderShape, layer: LayerWeights) -> dict[str, torch.Tensor | None]:
    """One layer's, by the end of their names."""
    named: dict[str, torch.Tensor | None] = {
        "input_layernorm.weight": layer.input_norm,
        "post_attention_layernorm.weight": layer.post_norm,
        "self_attn.q_norm.weight": layer.q_norm,
        "self_attn.k_norm.weight": layer.k_norm,
        "self_attn.o_proj.weight": layer.o,
        "self_attn.o_proj.bias": layer.o_bias,
        "mlp.down_proj.weight": layer.down,
        "mlp.down_proj.bias": layer.down_bias,
    }
    heads = [count * shape.head_dim for count in (shape.heads, shape.kv_heads, shape.kv_heads)]
    halves = [shape.inter, shape.inter]
    fused = [
        (("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), heads, layer.qkv, layer.qkv_bias),
        (("mlp.gate_proj", "mlp.up_proj"), halves, layer.gate_up, layer.gate_up_bias),
    ]
    for names, sizes, weight, bias in fused:
        named |= zip((f"{name}.weight" for name in names), weight.split_with_sizes(sizes), strict=True)
        if bias is not None:
            named |= zip((f"{name}.bias" for name in names), bias.split_with_sizes(sizes), strict=True)
    return named
