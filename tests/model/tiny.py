"""Tiny models of real architectures, a poisoned arena, and batches in one line."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from chatserve.model.batch import Batch, Sample
from chatserve.model.kernels import make_kernel
from chatserve.model.loaded import LoadedModel
from chatserve.model.runner import HostRunner, model_thread, step_logits
from chatserve.model.sampling import SamplingDefaults, SamplingParams
from chatserve.model.transformers_model import wrap

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "initializer_range": 0.2,
}

FAMILIES: dict[str, tuple[str, dict[str, object]]] = {
    "llama 8:8": ("llama", {"num_key_value_heads": 8}),
    "llama 8:1": ("llama", {"num_key_value_heads": 1}),
    "llama 32:8": ("llama", {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 8}),
    "llama 28:4": ("llama", {"hidden_size": 56, "num_attention_heads": 28, "num_key_value_heads": 4, "head_dim": 16}),
    "llama 14:2": ("llama", {"hidden_size": 56, "num_attention_heads": 14, "num_key_value_heads": 2, "head_dim": 8}),
    "mistral": ("mistral", {"sliding_window": None}),
    "qwen2, biases": ("qwen2", {}),
    "qwen3, q and k norms": ("qwen3", {"head_dim": 16}),
    "granite, scaled logits": ("granite", {"logits_scaling": 3.0, "attention_multiplier": 0.3}),
    "gemma, scaled embeddings": ("gemma", {"head_dim": 16}),
    "phi3, fused weights": ("phi3", {}),
    "mixtral, experts": ("mixtral", {"num_local_experts": 4, "sliding_window": None}),
}


def tiny_config(kind: str, **changes: object) -> PreTrainedConfig:
    """A small config of an architecture."""
    config = CONFIG_MAPPING[kind](**{**SMALL, **changes})
    assert isinstance(config, PreTrainedConfig)
    return config


def tiny_module(config: PreTrainedConfig, seed: int = 0, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Random weights, the same for the same seed; biases too, which transformers would leave at zero."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=dtype)
        for name, weight in module.named_parameters():
            if name.endswith("bias"):
                torch.nn.init.normal_(weight, std=0.2)
    return module.eval().requires_grad_(False)


@dataclass(frozen=True)
class Tiny:
    """A tiny model over slots, and the same one as transformers computes it."""

    model: LoadedModel
    plain: PreTrainedModel

    def reference(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits [len(tokens), vocab] of one sequence by transformers' own forward."""
        with torch.inference_mode():
            logits: torch.Tensor = self.plain(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
        return logits

    def arena(self, slots: int, rows: int) -> torch.Tensor:
        """See `poisoned_arena`."""
        return poisoned_arena(self.model, slots, rows)


def make_tiny(config: PreTrainedConfig, max_len: int = 512, dtype: torch.dtype = torch.float32) -> Tiny:
    """Both sides of one random model."""
    module = tiny_module(config, dtype=dtype)
    plain = copy.deepcopy(module)
    return Tiny(wrap(module, name="tiny", end_ids=(2,), defaults=SamplingDefaults(), max_len=max_len), plain)


def poisoned_arena(model: LoadedModel, slots: int, rows: int) -> torch.Tensor:
    """NaN wherever nothing was written, with gaps between rows and slots: what is read too much shows."""
    spec = model.spec
    shape = (spec.layers, 2, spec.kv_heads, spec.head_dim)
    row = torch.Size(shape).numel() + 24
    slot = row * (rows + 3)
    memory = torch.full((slots * slot,), float("nan"), dtype=getattr(torch, spec.dtype), device=model.device)
    inner = torch.empty(shape, device="meta").stride()
    return memory.as_strided((slots, rows, *shape), (slot, row, *inner))


def logits_of(model: LoadedModel, arena: torch.Tensor, batch: Batch) -> torch.Tensor:
    """One step's logits [samples, vocab] in float32."""
    newest = torch.zeros(len(arena), dtype=torch.int64, device=arena.device)
    with torch.inference_mode():
        return step_logits(model.weights.over(arena), make_kernel(arena), batch, newest).float()


def make_runner(model: LoadedModel, arena: torch.Tensor) -> HostRunner:
    """A runner over an arena, with a thread of its own."""
    return HostRunner(model.weights.over(arena), make_kernel(arena), slots=len(arena), worker=model_thread())


def make_batch(
    parts: Sequence[tuple[int, int, Sequence[int]]],
    samples: Sequence[Sample] | None = None,
    sampled: Sequence[int] | None = None,
) -> Batch:
    """parts: (slot, start, tokens) for each sequence. Samples every sequence greedily unless told otherwise."""
    tokens = [token for _, _, new in parts for token in new]
    positions = [start + index for _, start, new in parts for index in range(len(new))]
    if samples is None:
        greedy = SamplingParams(max_tokens=1, temperature=0.0)
        every = range(len(parts)) if sampled is None else sampled
        samples = [Sample(each, greedy, 0, (), ()) for each in every]
    return Batch(
        token_ids=torch.tensor(tokens),
        positions=torch.tensor(positions),
        slots=tuple(slot for slot, _, _ in parts),
        starts=tuple(start for _, start, _ in parts),
        counts=tuple(len(new) for _, _, new in parts),
        samples=tuple(samples),
    )
