"""Load a causal language model, ready to run over slots, or say by name why it cannot be.

On CUDA the fused decoder computes the architectures it knows; all others, and the CPU, run transformers' own code.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from chatserve.model.by_transformers import computing, describing
from chatserve.model.decoder_shape import DecoderShape, decoder_shape
from chatserve.model.description import Config, Described
from chatserve.model.errors import UnsupportedModel
from chatserve.model.fused import fuse
from chatserve.model.loaded import Known, KVShape, LoadedModel, model_spec
from chatserve.model.origin import Origin, locate
from chatserve.model.plain_files import describe
from chatserve.model.support import check_config, context_limit
from chatserve.model.tensor_sources import SEED, Progress, RandomWeights, TensorSource, no_progress, stored_in

log = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


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
    place = torch.empty(0, device=device).device  # with its index, which `device` may leave out
    described = describe_for(place, origin)
    config = described.config
    limit = context_limit(config, max_len)
    check_config(config, limit)
    kind = choose_dtype(dtype, device, config)
    known = Known(name=origin.name, end_ids=described.end_ids, defaults=described.defaults, max_len=limit)
    shape = decoder_shape(config, limit) if place.type == "cuda" else f"the device is {place}"
    if isinstance(shape, str):
        log.info("%s is computed by transformers' own model: %s", origin.name, shape)
        own: LoadedModel = computing().load(origin, known, dtype=kind, device=place, random_weights=random_weights)
        return own
    log.info("%s is computed by the fused decoder", origin.name)
    tensors = RandomWeights(SEED, shape.spread) if random_weights else stored_tensors(origin, kind)
    return fused_model(config, shape, tensors, known, dtype=kind, device=place, progress=progress)


def describe_for(device: torch.device, origin: Origin) -> Described:
    """Without transformers where it can be and helps: on the CPU it computes all models. Raises ModelNotFound,
    UnsupportedModel.
    """
    plain = describe(origin) if device.type == "cuda" else None
    described: Described = plain or describing().describe(origin)
    return described


def stored_tensors(origin: Origin, dtype: torch.dtype) -> TensorSource:
    """Straight from safetensors where they are, else through transformers, in `dtype`.

    Raises ModelNotFound, UnsupportedModel, IncompleteModel.
    """
    found: TensorSource = stored_in(origin) or computing().stored_tensors(origin, dtype)
    return found


def fused_model(
    config: Config,
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


def choose_dtype(dtype: str | None, device: str, config: Config) -> torch.dtype:
    """Raises UnsupportedModel for a dtype that is not known."""
    if dtype is not None:
        if dtype not in DTYPES:
            raise UnsupportedModel(f"dtype {dtype!r} is not known; choose one of {', '.join(DTYPES)}")
        return DTYPES[dtype]
    if torch.device(device).type == "cpu":
        return torch.float32
    own: Any = getattr(config.get_text_config(), "dtype", None)
    own = DTYPES.get(own, own)  # by name, where the config is read without transformers
    return own if own in (torch.float16, torch.bfloat16) else torch.bfloat16
