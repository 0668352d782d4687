"""Where a model comes from, and what lies there beside its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedConfig

from chatserve.model.ends import EndIds
from chatserve.model.errors import ModelNotFound, UnsupportedModel


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: what transformers' from_pretrained wants, and the name users see."""

    location: str
    options: Mapping[str, str]
    name: str


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


def tokenizer_end(origin: Origin) -> EndIds:
    """The tokenizer's own end token; None where there is no tokenizer or it names none."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(origin.location, **origin.options)
    except (OSError, ValueError, KeyError):
        return None
    end: EndIds = tokenizer.eos_token_id
    return end


def generation_settings(origin: Origin, config: PreTrainedConfig) -> GenerationConfig:
    """The model's own; where it brings none, what old configs say of them."""
    try:
        return GenerationConfig.from_pretrained(origin.location)
    except OSError:
        return GenerationConfig.from_model_config(config)
