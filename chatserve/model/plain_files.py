"""A model's description read straight from the files of its folder, where nothing in them needs interpreting.

transformers reads any file, but takes longer to import than a large model to load. So the files of the fused decoder's
architectures are read here when they spell out whatever has a default and hold nothing that is unknown; all others are
left to transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from chatserve.model.description import Described
from chatserve.model.ends import EndIds, union
from chatserve.model.generation import sampling_defaults
from chatserve.model.origin import Origin

File = TypeVar("File")

ROPE = {
    "default": {"rope_type", "rope_theta"},
    "llama3": {
        "rope_type",
        "rope_theta",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    },
}
"""What spells out each rope type."""


class Passed(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a config may say that has no say here."""

    architectures: Any = None
    attention_dropout: Any = None
    bos_token_id: Any = None
    max_window_layers: Any = None
    pad_token_id: Any = None
    pretraining_tp: Any = None
    transformers_version: Any = None
    use_cache: Any = None


class PlainConfig(Passed, kw_only=True):
    """config.json; see Config. Its attributes are those that transformers gives it.

    Raises ValueError when something is left to a default that differs between architectures, or to transformers.
    """

    model_type: Literal["llama", "mistral", "qwen2", "qwen3"]
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    hidden_act: str
    max_position_embeddings: int
    rms_norm_eps: float
    eos_token_id: int | list[int] | None
    head_dim: int | None = None
    initializer_range: float = 0.02
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    use_sliding_window: bool | msgspec.UnsetType = msgspec.UNSET
    sliding_window: int | msgspec.UnsetType | None = msgspec.UNSET
    layer_types: list[Literal["full_attention"]] | None = None
    rope_parameters: dict[str, float | str] | None = None
    rope_scaling: dict[str, float | str] | None = None
    rope_theta: float | None = None
    dtype: str | None = None
    torch_dtype: str | None = None

    def __post_init__(self) -> None:
        if self.head_dim is None:
            if self.model_type == "qwen3":
                raise ValueError("no head_dim")
            self.head_dim = self.hidden_size // self.num_attention_heads
        if self.hidden_size % self.num_attention_heads:
            raise ValueError("hidden_size is no multiple of num_attention_heads")
        self.sliding_window = self._window()
        self.rope_parameters = self._rope()
        self.dtype = self.dtype or self.torch_dtype

    def get_text_config(self) -> PlainConfig:
        """See Config."""
        return self

    def _window(self) -> int | None:
        if self.model_type in ("llama", "mistral"):
            if (self.sliding_window is msgspec.UNSET) == (self.model_type == "mistral"):
                raise ValueError("a mistral's window is not spelled out, or a llama has one")
            return None if self.sliding_window is msgspec.UNSET else self.sliding_window
        if self.use_sliding_window is True:
            raise ValueError("a window in some layers")
        return None

    def _rope(self) -> dict[str, float | str]:
        given = self.rope_scaling or self.rope_parameters or {}
        kind = given.get("rope_type", given.get("type", "default"))
        full = {"rope_type": kind, **given}
        full.pop("type", None)
        if self.rope_theta is not None:
            full.setdefault("rope_theta", self.rope_theta)
        if full.keys() != ROPE.get(str(kind)):
            raise ValueError("a rope type that is not spelled out, or is left to transformers")
        return full


class GenerationSettings(msgspec.Struct):
    """generation_config.json, what of it has a say."""

    eos_token_id: int | list[int] | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None


class Token(msgspec.Struct):
    """A special token where it is more than a text."""

    content: str


class NamedTokens(msgspec.Struct):
    """tokenizer_config.json and special_tokens_map.json."""

    eos_token: str | Token | None = None


class AddedToken(msgspec.Struct):
    """A token of its own beside the vocabulary."""

    id: int
    content: str


class Vocabulary(msgspec.Struct):
    """tokenizer.json; the rest of it is long and is not read."""

    added_tokens: list[AddedToken]


def describe(origin: Origin) -> Described | None:
    """None where transformers must read the files."""
    folder = Path(origin.location)
    if origin.options or not folder.is_dir():
        return None
    try:
        config = read(folder / "config.json", PlainConfig)
        settings = read(folder / "generation_config.json", GenerationSettings) or GenerationSettings()
        end = tokenizer_end(folder)
    except msgspec.DecodeError:  # ValidationError is one
        return None
    if config is None or end is None:
        return None
    return Described(config, union(end, config.eos_token_id, settings.eos_token_id), sampling_defaults(settings))


def read(file: Path, kind: type[File]) -> File | None:
    """None where there is no such file. Raises DecodeError."""
    return msgspec.json.decode(file.read_bytes(), type=kind) if file.is_file() else None


def tokenizer_end(folder: Path) -> EndIds:
    """The tokenizer's own end token; None where that is not plain. Raises DecodeError."""
    vocabulary = read(folder / "tokenizer.json", Vocabulary)
    named = [read(folder / file, NamedTokens) for file in ("tokenizer_config.json", "special_tokens_map.json")]
    ends = {end.content if isinstance(end, Token) else end for each in named if each and (end := each.eos_token)}
    if vocabulary is None or len(ends) != 1:
        return None
    return next((token.id for token in vocabulary.added_tokens if token.content in ends), None)
