"""The fused decoder's weights are those of the checkpoint, all of them, or loading fails by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from chatserve.model.decoder_shape import decoder_shape
from chatserve.model.decoder_weights import DecoderWeights, empty_weights, named_tensors
from chatserve.model.errors import IncompleteModel
from chatserve.model.tensor_sources import RandomWeights, SafetensorsFolder, StateDict, TensorSource, no_progress
from tests.model.fused_tiny import FUSED, lively_module, saved, shape_of
from tests.model.tiny import SMALL


def filled(name: str, tensors: TensorSource, dtype: torch.dtype = torch.float32) -> DecoderWeights:
    """Weights of a tiny model."""
    weights = empty_weights(shape_of(lively_module(name)), dtype, torch.device("cpu"))
    tensors.fill(named_tensors(weights), no_progress)
    return weights


def edit(folder: Path, *, without: str = "", add: dict[str, torch.Tensor] | None = None) -> None:
    """Change the tensors of a saved model."""
    file = folder / "model.safetensors"
    tensors = load_file(file)
    tensors.pop(without, None)
    save_file(tensors | (add or {}), file)


@pytest.mark.parametrize("shard", ["1GB", "20KB"], ids=["one file", "shards"])
@pytest.mark.parametrize("name", FUSED)
def test_every_tensor_of_the_checkpoint_is_in_its_place(tmp_path, name, shard):
    """A44."""
    module = lively_module(name)
    weights = filled(name, saved(module, tmp_path, shard))
    stored = module.state_dict()
    named = named_tensors(weights)
    assert named.keys() == stored.keys() - ({"lm_head.weight"} if weights.shape.tied else set())
    assert all(torch.equal(tensor, stored[key]) for key, tensor in named.items())
    layer = weights.layers[1]
    attention = "model.layers.1.self_attn"
    products = [stored[f"{attention}.{kind}_proj.weight"] for kind in "qkv"]
    assert torch.equal(layer.qkv, torch.cat(products))
    gated = [stored[f"model.layers.1.mlp.{kind}_proj.weight"] for kind in ("gate", "up")]
    assert torch.equal(layer.gate_up, torch.cat(gated))


def test_tensors_are_converted_to_the_dtype_asked_for(tmp_path):
    module = lively_module("llama")
    weights = filled("llama", saved(module, tmp_path), torch.bfloat16)
    assert torch.equal(weights.layers[0].down, module.model.layers[0].mlp.down_proj.weight.bfloat16())


@pytest.mark.parametrize("shard", ["1GB", "20KB"], ids=["one file", "shards"])
def test_progress_grows_to_all_bytes(tmp_path, shard):
    told: list[tuple[int, int]] = []
    weights = empty_weights(shape_of(lively_module("llama")), torch.float32, torch.device("cpu"))
    targets = named_tensors(weights)
    saved(lively_module("llama"), tmp_path, shard).fill(targets, lambda done, total: told.append((done, total)))
    total = sum(target.nbytes for target in targets.values())
    assert told[0] == (0, total)
    assert told[-1] == (total, total)
    assert told == sorted(told)


def test_an_output_layer_beside_tied_embeddings_is_left_alone(tmp_path):
    """A44: whatever it holds."""
    folder = saved(lively_module("llama, tied"), tmp_path)
    edit(tmp_path, add={"lm_head.weight": torch.zeros(97, 64)})
    weights = filled("llama, tied", folder)
    assert weights.head is weights.embed
    assert weights.head.any()


def test_an_old_checkpoints_table_of_angles_is_left_alone(tmp_path):
    folder = saved(lively_module("llama"), tmp_path)
    edit(tmp_path, add={"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)})
    filled("llama", folder)


@pytest.mark.parametrize("missing", ["lm_head.weight", "model.layers.1.self_attn.k_proj.bias"])
def test_a_missing_tensor_is_named(tmp_path, missing):
    """A44: never left as it was."""
    folder = saved(lively_module("qwen2, biases"), tmp_path)
    edit(tmp_path, without=missing)
    with pytest.raises(IncompleteModel, match=f"missing: {missing}"):
        filled("qwen2, biases", folder)


def test_a_tensor_that_nothing_uses_is_named(tmp_path):
    """A44."""
    folder = saved(lively_module("llama"), tmp_path)
    edit(tmp_path, add={"model.layers.1.self_attn.sinks": torch.zeros(8)})
    with pytest.raises(IncompleteModel, match=r"not used: model\.layers\.1\.self_attn\.sinks"):
        filled("llama", folder)


def test_a_tensor_of_another_shape_is_named(tmp_path):
    folder = saved(lively_module("llama"), tmp_path)
    edit(tmp_path, add={"model.norm.weight": torch.zeros(3)})
    with pytest.raises(IncompleteModel, match=r"of another shape: model\.norm\.weight \(\[3\] instead of \[64\]\)"):
        filled("llama", folder)


def test_a_damaged_file_and_a_missing_one_are_named(tmp_path):
    folder = saved(lively_module("llama"), tmp_path, "20KB")
    shards = sorted(tmp_path.glob("model-*.safetensors"))
    shards[1].write_bytes(shards[1].read_bytes()[:-100])
    with pytest.raises(IncompleteModel, match="damaged"):
        filled("llama", folder)
    shards[1].unlink()
    with pytest.raises(IncompleteModel, match=f"lacks weights files.*{shards[1].name}"):
        filled("llama", folder)


def test_a_model_in_memory_is_checked_the_same_way():
    tensors = dict(lively_module("llama").state_dict())
    tensors.pop("model.norm.weight")
    with pytest.raises(IncompleteModel, match=r"missing: model\.norm\.weight"):
        filled("llama", StateDict("tiny", tensors))


def test_random_weights_are_one_model_for_one_seed():
    first, again, other = (filled("qwen2, biases", RandomWeights(seed, 0.02)) for seed in (3, 3, 4))
    assert all(
        torch.equal(one, two)
        for one, two in zip(named_tensors(first).values(), named_tensors(again).values(), strict=True)
    )
    assert not torch.equal(first.layers[0].qkv, other.layers[0].qkv)
    assert not torch.equal(first.layers[0].qkv, first.layers[1].qkv)
    assert first.layers[0].qkv.std() == pytest.approx(0.02, rel=0.05)
    assert first.norm.eq(1).all()
    assert first.layers[2].qkv_bias is not None
    assert first.layers[2].qkv_bias.eq(0).all()


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("gemma", {"head_dim": 16}, "gemma: not one of llama, mistral, qwen2, qwen3"),
        ("mixtral", {"num_local_experts": 4}, "mixtral: not one of"),
        ("qwen3_moe", {}, "qwen3_moe: not one of"),
        ("smollm3", {}, "smollm3: not one of"),
        ("llama", {"hidden_act": "gelu"}, "its activation is 'gelu', not 'silu'"),
        ("llama", {"quantization_config": {"quant_method": "fp8"}}, "quantized"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "partial_rotary_factor 0.5",
        ),
        ("mistral", {"sliding_window": 100}, "'sliding_attention' (window 100)"),
        ("mistral", {"sliding_window": 100, "layer_types": ["full_attention"] * 3}, "(window 100)"),
        ("qwen3", {"use_sliding_window": True, "sliding_window": 100, "max_window_layers": 1}, "(window 100)"),
    ],
)
def test_what_the_fused_decoder_does_not_compute_is_said(kind, changes, says):
    reason = decoder_shape(CONFIG_MAPPING[kind](**{**SMALL, **changes}), 512)
    assert isinstance(reason, str)
    assert says in reason


def test_a_folder_holds_weights_or_does_not(tmp_path):
    assert not SafetensorsFolder.holds_weights(tmp_path)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {}}))
    assert SafetensorsFolder.holds_weights(tmp_path)
