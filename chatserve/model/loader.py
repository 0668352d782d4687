"""Load a causal language model, ready to run over slots, or say by name why it cannot be.

On CUDA the fused decoder computes the architectures it knows; all others, and the CPU, run transformers' own code.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from chatserve.model.attention import TransformersWeights, use_slot_attention
from chatserve.model.decoder_shape import DecoderShape, decoder_shape
from chatserve.model.ends import union
from chatserve.model.errors import UnsupportedModel
from chatserve.model.fused import fuse
from chatserve.model.generation import sampling_defaults
from chatserve.model.linear_cpu import speed_up_linears
from chatserve.model.origin import generation_settings, locate, read_config, tokenizer_end
from chatserve.model.probe import KVShape, probe
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec
from chatserve.model.step import Weights
from chatserve.model.stored import SEED, random_module, read_module, stored_tensors
from chatserve.model.support import check_config, context_limit
from chatserve.model.tensor_sources import Progress, RandomWeights, TensorSource, no_progress

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on its device whose attention reads slots; and what the house needs to know of it."""

    weights: Weights
    spec: ModelSpec
    device: torch.device


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a model before its weights are: the name users see, and what its settings say."""

    name: str
    end_ids: tuple[int, ...]
    defaults: SamplingDefaults
    max_len: int


def load_model(
    source: str,
    *,
    dtype: str | None,
    device: str,
    max_len: int | None,
    random_weights: bool = False,
    progress: Progress = no_progress,
) -> LoadedModel:
    """Load `source`: a local folder, a *.gguf file or a hub id.

    dtype: "float32", "bfloat16" or "float16"; None is float32 on the CPU, and on CUDA the model's own if it is a half,
    else bfloat16. max_len: tokens of context wanted; never more than the model was made for.
    random_weights: read the config only, and make weights that mean nothing, the same ones every time.
    progress: told as weights are written on the device, where the fused decoder computes the model.
    Raises ModelNotFound, UnsupportedModel, IncompleteModel.
    """
    origin = locate(source)
    config = read_config(origin)
    limit = context_limit(config, max_len)
    check_config(config, limit)
    kind = choose_dtype(dtype, device, config)
    place = torch.empty(0, device=device).device  # with its index, which `device` may leave out
    settings = generation_settings(origin, config)
    end_ids = union(tokenizer_end(origin), config.get_text_config().eos_token_id, settings.eos_token_id)
    known = Known(name=origin.name, end_ids=end_ids, defaults=sampling_defaults(settings), max_len=limit)
    shape = decoder_shape(config, limit) if place.type == "cuda" else f"the device is {place}"
    if isinstance(shape, str):
        log.info("%s is computed by transformers' own model: %s", origin.name, shape)
        module = random_module(config, kind, place) if random_weights else read_module(origin, kind)
        return wrap_known(torch.nn.Module.to(module, place), known)
    log.info("%s is computed by the fused decoder", origin.name)
    tensors = RandomWeights(SEED, shape.spread) if random_weights else stored_tensors(origin, kind)
    return fused_model(config, shape, tensors, known, dtype=kind, device=place, progress=progress)


def fused_model(
    config: PreTrainedConfig,
    shape: DecoderShape,
    tensors: TensorSource,
    known: Known,
    *,
    dtype: torch.dtype,
    device: torch.device,
    progress: Progress = no_progress,
) -> LoadedModel:
    """Read a model of this shape onto the device, for the fused decoder. Raises IncompleteModel."""
    weights = fuse(config, shape, tensors, dtype=dtype, device=device, max_len=known.max_len, progress=progress)
    held = KVShape(layers=shape.layers, heads=shape.heads, kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    return LoadedModel(weights=weights, spec=model_spec(held, shape.vocab, dtype, known), device=device)


def wrap(
    module: PreTrainedModel, *, name: str, end_ids: Sequence[int], defaults: SamplingDefaults, max_len: int
) -> LoadedModel:
    """Make a transformers module that is already in memory, on its device and in its dtype, run over slots.

    Raises UnsupportedModel.
    """
    return wrap_known(module, Known(name=name, end_ids=tuple(end_ids), defaults=defaults, max_len=max_len))


def wrap_known(module: PreTrainedModel, known: Known) -> LoadedModel:
    """See `wrap`."""
    module.train(False).requires_grad_(False)
    check_angles(module)
    held = probe(module, known.max_len)
    use_slot_attention(module)
    if module.device.type == "cpu":
        speed_up_linears(module)
    spec = model_spec(held, module.config.get_text_config().vocab_size, module.dtype, known)
    return LoadedModel(weights=TransformersWeights(module), spec=spec, device=module.device)


def model_spec(held: KVShape, vocab_size: int, dtype: torch.dtype, known: Known) -> ModelSpec:
    """All that is told of a model."""
    return ModelSpec(
        name=known.name,
        layers=held.layers,
        heads=held.heads,
        kv_heads=held.kv_heads,
        head_dim=held.head_dim,
        vocab_size=vocab_size,
        max_len=known.max_len,
        dtype=str(dtype).removeprefix("torch."),
        end_ids=known.end_ids,
        defaults=known.defaults,
    )


def check_angles(module: PreTrainedModel) -> None:
    """Rotary tables in 16 bits cannot tell late positions apart. Raises UnsupportedModel."""
    for name, buffer in module.named_buffers():
        if name.endswith("inv_freq") and buffer.dtype != torch.float32:
            raise UnsupportedModel(
                f"{name} is {buffer.dtype}: rotary angles need float32; give the dtype when the model is loaded "
                "instead of casting the module"
            )


def choose_dtype(dtype: str | None, device: str, config: PreTrainedConfig) -> torch.dtype:
    """Raises UnsupportedModel for a dtype that is not known."""
    if dtype is not None:
        if dtype not in DTYPES:
            raise UnsupportedModel(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    if torch.device(device).type == "cpu":
        return torch.float32
    own = getattr(config.get_text_config(), "dtype", None)
    return own if own in (torch.float16, torch.bfloat16) else torch.bfloat16
