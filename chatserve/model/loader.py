"""Load a causal language model through transformers, ready to run over slots, or say by name why it cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel

from chatserve.model.attention import use_slot_attention
from chatserve.model.ends import EndIds, union
from chatserve.model.errors import IncompleteModel, ModelNotFound, UnsupportedModel
from chatserve.model.generation import sampling_defaults
from chatserve.model.linear_cpu import speed_up_linears
from chatserve.model.probe import probe
from chatserve.model.sampling import SamplingDefaults
from chatserve.model.spec import ModelSpec
from chatserve.model.support import check_config, context_limit

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model on its device, in eval mode, whose attention reads slots; and what the house needs to know of it."""

    module: PreTrainedModel
    spec: ModelSpec
    device: torch.device


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: what transformers' from_pretrained wants, and the name users see."""

    location: str
    options: Mapping[str, str]
    name: str


def load_model(source: str, *, dtype: str | None, device: str, max_len: int | None) -> LoadedModel:
    """Load `source`: a local folder, a *.gguf file or a hub id.

    dtype: "float32", "bfloat16" or "float16"; None is float32 on the CPU, and on CUDA the model's own if it is a half,
    else bfloat16. max_len: tokens of context wanted; never more than the model was made for.
    Raises ModelNotFound, UnsupportedModel, IncompleteModel.
    """
    origin = locate(source)
    config = read_config(origin)
    limit = context_limit(config, max_len)
    check_config(config, limit)
    module = read_weights(origin, choose_dtype(dtype, device, config))
    torch.nn.Module.to(module, torch.device(device))
    return wrap(
        module,
        name=origin.name,
        end_ids=union(
            tokenizer_end(origin),
            config.get_text_config().eos_token_id,
            getattr(module.generation_config, "eos_token_id", None),
        ),
        defaults=sampling_defaults(module.generation_config),
        max_len=limit,
    )


def wrap(
    module: PreTrainedModel, *, name: str, end_ids: Sequence[int], defaults: SamplingDefaults, max_len: int
) -> LoadedModel:
    """Make a transformers module that is already in memory, on its device and in its dtype, run over slots.

    Raises UnsupportedModel.
    """
    module.train(False).requires_grad_(False)
    check_angles(module)
    shape = probe(module, max_len)
    use_slot_attention(module)
    if module.device.type == "cpu":
        speed_up_linears(module)
    spec = ModelSpec(
        name=name,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        vocab_size=module.config.get_text_config().vocab_size,
        max_len=max_len,
        dtype=str(module.dtype).removeprefix("torch."),
        end_ids=tuple(end_ids),
        defaults=defaults,
    )
    return LoadedModel(module=module, spec=spec, device=module.device)


def check_angles(module: PreTrainedModel) -> None:
    """Rotary tables in 16 bits cannot tell late positions apart. Raises UnsupportedModel."""
    for name, buffer in module.named_buffers():
        if name.endswith("inv_freq") and buffer.dtype != torch.float32:
            raise UnsupportedModel(
                f"{name} is {buffer.dtype}: rotary angles need float32; give the dtype when the model is loaded "
                "instead of casting the module"
            )


def locate(source: str) -> Origin:
    """Raises ModelNotFound for what is written like a path and is not there."""
    path = Path(source)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ModelNotFound(f"there is no file {source}")
        return Origin(str(path.parent), {"gguf_file": path.name}, path.stem)
    if path.is_dir():
        return Origin(str(path), {}, path.resolve().name)
    if path.is_absolute() or source.startswith((".", "~")) or source.count("/") > 1:
        raise ModelNotFound(f"there is no folder {source}")
    return Origin(source, {}, source)


def read_config(origin: Origin) -> PreTrainedConfig:
    """Raises ModelNotFound, UnsupportedModel."""
    try:
        config = AutoConfig.from_pretrained(origin.location, **origin.options)
    except OSError as error:
        raise ModelNotFound(f"no model config could be read from {origin.name}: {error}") from error
    except (ValueError, KeyError, StrictDataclassError) as error:
        raise UnsupportedModel(f"transformers does not accept the config of {origin.name}: {error}") from error
    assert isinstance(config, PreTrainedConfig)
    return config


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


def read_weights(origin: Origin, dtype: torch.dtype) -> PreTrainedModel:
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
        raise ModelNotFound(f"no weights could be read from {origin.name}: {error}") from error
    except SafetensorError as error:
        raise IncompleteModel(f"a weights file of {origin.name} is damaged: {error}") from error
    except ValueError as error:
        raise UnsupportedModel(f"transformers cannot build {origin.name}: {error}") from error
    module, report = loaded
    check_complete(origin.name, report)
    assert isinstance(module, PreTrainedModel)
    return module


def check_complete(name: str, report: Mapping[str, Any]) -> None:
    """Every tensor of the architecture was in the checkpoint and the other way round. Raises IncompleteModel."""
    faults = {
        "missing": sorted(report["missing_keys"]),
        "not used": sorted(report["unexpected_keys"]),
        "of another shape": sorted(str(entry) for entry in report["mismatched_keys"]),
    }
    told = [f"{fault}: {shorten(names)}" for fault, names in faults.items() if names]
    if told:
        raise IncompleteModel(
            f"the tensors of {name} are not those of its architecture; {'; '.join(told)} (an output layer that shares "
            "the embeddings needs tie_word_embeddings in config.json)"
        )


def shorten(names: Sequence[str], most: int = 8) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def tokenizer_end(origin: Origin) -> EndIds:
    """The tokenizer's own end token; None where there is no tokenizer or it names none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(origin.location, **origin.options)
    except (OSError, ValueError, KeyError):
        return None
    end: EndIds = tokenizer.eos_token_id
    return end
