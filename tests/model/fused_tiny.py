"""Tiny models of every architecture that the fused decoder computes, and the same ones as transformers does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import PreTrainedModel

from chatserve.model.batch import Batch
from chatserve.model.decoder_shape import DecoderShape, decoder_shape
from chatserve.model.kernels import make_kernel
from chatserve.model.loaded import Known, LoadedModel
from chatserve.model.loader import fused_model
from chatserve.model.runner import step_logits
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.tensor_sources import SafetensorsFolder, StateDict, TensorSource
from tests.model.tiny import make_batch, poisoned_arena, tiny_config, tiny_module

MAX_LEN = 128
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.5] * 4, "long_factor": [9.0] * 4, "factor": 4.0}

FUSED: dict[str, tuple[str, dict[str, object]]] = {
    "llama": ("llama", {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, every bias": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, one KV head": ("llama", {"num_key_value_heads": 1}),
    "llama, wide heads": ("llama", {"head_dim": 16, "rms_norm_eps": 1e-3}),
    "llama, llama3 rope": ("llama", {"rope_parameters": LLAMA3 | {"original_max_position_embeddings": 64}}),
    "llama, linear rope": ("llama", {"rope_scaling": {"type": "linear", "factor": 4.0}}),
    "llama, longrope": ("llama", {"rope_parameters": LONG | {"original_max_position_embeddings": 128}}),
    "mistral": ("mistral", {"sliding_window": None}),
    "mistral, a window nothing outgrows": ("mistral", {"sliding_window": MAX_LEN, "head_dim": 16}),
    "qwen2, biases": ("qwen2", {}),
    "qwen2, tied, yarn": ("qwen2", {"tie_word_embeddings": True, "rope_parameters": YARN}),
    "qwen3, q and k norms": ("qwen3", {"head_dim": 16}),
    "qwen3, tied, biases, yarn": (
        "qwen3",
        {"head_dim": 8, "tie_word_embeddings": True, "attention_bias": True, "rope_parameters": YARN},
    ),
}


def lively_module(name: str) -> PreTrainedModel:
    """Random in float32, norms too, which transformers would leave at one: a norm that is forgotten shows."""
    kind, changes = FUSED[name]
    module = tiny_module(tiny_config(kind, **changes))
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for weight_name, weight in module.named_parameters():
            if weight_name.endswith("norm.weight"):
                weight.normal_(1.0, 0.2)
    return module


def shape_of(module: PreTrainedModel) -> DecoderShape:
    """It has one."""
    shape = decoder_shape(module.config, MAX_LEN)
    assert isinstance(shape, DecoderShape), shape
    return shape


def fused(
    module: PreTrainedModel,
    tensors: TensorSource | None = None,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    max_len: int = MAX_LEN,
) -> LoadedModel:
    """The model of a module's config; its own weights unless others are given."""
    known = Known(name="tiny", end_ids=(2,), defaults=SamplingDefaults(), max_len=max_len)
    tensors = tensors or StateDict("tiny", module.state_dict())
    place = torch.empty(0, device=device).device
    return fused_model(module.config, shape_of(module), tensors, known, dtype=dtype, device=place)


def saved(module: PreTrainedModel, folder: Path, shard: str = "1GB") -> SafetensorsFolder:
    """The module as a checkpoint."""
    module.save_pretrained(folder, max_shard_size=shard)
    return SafetensorsFolder("tiny", folder)


class Rig:
    """A model over a poisoned arena of six slots, that computes one batch after the other."""

    def __init__(self, model: LoadedModel) -> None:
        self._arena = poisoned_arena(model, 6, MAX_LEN)
        self._network = model.weights.over(self._arena)
        self._newest = torch.zeros(6, dtype=torch.int64, device=model.device)

    def logits(self, batch: Batch) -> torch.Tensor:
        """[samples, vocab], on the CPU."""
        with torch.inference_mode():
            return step_logits(self._network, make_kernel(self._arena), batch, self._newest).float().cpu()

    def cut(self, texts: Mapping[int, list[int]], cuts: Mapping[int, tuple[int, int]]) -> torch.Tensor:
        """The last logits of each slot's rows from … to, of its text."""
        return self.logits(make_batch([(slot, start, texts[slot][start:end]) for slot, (start, end) in cuts.items()]))
