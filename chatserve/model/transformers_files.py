"""A model's description as transformers reads it, from files of any age and format."""

from __future__ import annotations

from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, PreTrainedConfig

from chatserve.model.description import Described
from chatserve.model.ends import EndIds, union
from chatserve.model.errors import ModelNotFound, UnsupportedModel
from chatserve.model.generation import sampling_defaults
from chatserve.model.origin import Origin


def describe(origin: Origin) -> Described:
    """Raises ModelNotFound, UnsupportedModel."""
    config: Any = read_config(origin)
    settings = generation_settings(origin, config)
    end_ids = union(tokenizer_end(origin), config.get_text_config().eos_token_id, settings.eos_token_id)
    return Described(config, end_ids, sampling_defaults(settings))


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
