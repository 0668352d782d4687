"""What a model's files say of it beside its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from chatserve.model.sampling import SamplingDefaults


class Config(Protocol):
    """A config as transformers gives it. Which attributes it has depends on the architecture."""

    @property
    def model_type(self) -> str:
        """The architecture's name."""
        ...

    def get_text_config(self) -> Any:
        """Of the part that reads text: itself, in most."""
        ...


@dataclass(frozen=True, slots=True)
class Described:
    """end_ids: whatever tokenizer, config or generation settings say ends an answer."""

    config: Config
    end_ids: tuple[int, ...]
    defaults: SamplingDefaults
