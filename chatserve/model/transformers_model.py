"""Models that transformers reads and computes: every format, every architecture whose attention can read slots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from chatserve.model.attention import TransformersWeights, use_slot_attention
from chatserve.model.completeness import refuse_incomplete
from chatserve.model.errors import IncompleteModel, ModelNotFound, UnsupportedModel
from chatserve.model.linear_cpu import speed_up_linears
from chatserve.model.loaded import Known, LoadedModel, model_spec
from chatserve.model.origin import Origin
from chatserve.model.probe import probe
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.tensor_sources import INDEX, SEED, SINGLE, SafetensorsFolder, StateDict, TensorSource
from chatserve.model.transformers_files import read_config

SHARDS = "model-*.safetensors"


def load(
    origin: Origin, known: Known, *, dtype: torch.dtype, device: torch.device, random_weights: bool
) -> LoadedModel:
    """Onto the device, to run over slots. Raises ModelNotFound, UnsupportedModel, IncompleteModel."""
    module = random_module(read_config(origin), dtype, device) if random_weights else read_module(origin, dtype)
    return wrap_known(torch.nn.Module.to(module, device), known)


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


def check_angles(module: PreTrainedModel) -> None:
    """Rotary tables in 16 bits cannot tell late positions apart. Raises UnsupportedModel."""
    for name, buffer in module.named_buffers():
        if name.endswith("inv_freq") and buffer.dtype != torch.float32:
            raise UnsupportedModel(
                f"{name} is {buffer.dtype}: rotary angles need float32; give the dtype when the model is loaded "
                "instead of casting the module"
            )


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
            module = AutoModelForCausalLM.from_config(config, dtype=dtype)
        except ValueError as error:
            raise UnsupportedModel(f"transformers cannot build {config.model_type}: {error}") from error
    assert isinstance(module, PreTrainedModel)
    return module


def stored_tensors(origin: Origin, dtype: torch.dtype) -> TensorSource:
    """From the safetensors of a hub repository where it has them, else from the module that is made of the origin.

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
