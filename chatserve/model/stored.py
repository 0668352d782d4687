"""Weights as they are stored: through transformers, which reads every format, or straight from safetensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from chatserve.model.completeness import refuse_incomplete
from chatserve.model.errors import IncompleteModel, ModelNotFound, UnsupportedModel
from chatserve.model.origin import Origin
from chatserve.model.tensor_sources import INDEX, SINGLE, SafetensorsFolder, StateDict, TensorSource

SEED = 0
"""Of random weights."""
SHARDS = "model-*.safetensors"


def read_module(origin: Origin, dtype: torch.dtype) -> PreTrainedModel:
    """Raises ModelNotFound, UnsupportedModel, IncompleteModel."""
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            origin.location,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **origin.options,
        )
    except OSError as error:
        raise no_weights(origin, error) from error
    except SafetensorError as error:
        raise IncompleteModel(f"a weights file of {origin.name} is damaged: {error}") from error
    except ValueError as error:
        raise UnsupportedModel(f"transformers cannot build {origin.name}: {error}") from error
    module, report = loaded
    refuse_incomplete(
        origin.name,
        missing=report["missing_keys"],
        unused=report["unexpected_keys"],
        misshapen=[str(entry) for entry in report["mismatched_keys"]],
    )
    assert isinstance(module, PreTrainedModel)
    return module


def random_module(config: PreTrainedConfig, dtype: torch.dtype, device: torch.device) -> PreTrainedModel:
    """Untrained, the same in every call. Raises UnsupportedModel."""
    with torch.random.fork_rng(), device:
        torch.manual_seed(SEED)
        try:
            module = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
        except ValueError as error:
            raise UnsupportedModel(f"transformers cannot build {config.model_type}: {error}") from error
    assert isinstance(module, PreTrainedModel)
    return module


def stored_tensors(origin: Origin, dtype: torch.dtype) -> TensorSource:
    """From its safetensors where it has them, else from the module that transformers makes of it, in `dtype`.

    Raises ModelNotFound, UnsupportedModel, IncompleteModel.
    """
    if not origin.options:
        folder = stored_folder(origin)
        if SafetensorsFolder.holds_weights(folder):
            return SafetensorsFolder(origin.name, folder)
    return StateDict(origin.name, read_module(origin, dtype).state_dict())


def stored_folder(origin: Origin) -> Path:
    """The origin's folder; of a hub repository the local copy, which is fetched first. Raises ModelNotFound."""
    if Path(origin.location).is_dir():
        return Path(origin.location)
    try:
        return Path(snapshot_download(origin.location, allow_patterns=[SINGLE, SHARDS, INDEX]))
    except OSError as error:
        raise no_weights(origin, error) from error


def no_weights(origin: Origin, error: OSError) -> ModelNotFound:
    """What to say where a model's weights should be."""
    return ModelNotFound(
        f"no weights could be read from {origin.name}: {error} (to run a config without weights, for a trial of speed "
        "or memory, ask for --random-weights)"
    )
