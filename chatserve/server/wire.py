"""The JSON that goes out, in OpenAI's shapes."""

from __future__ import annotations

from typing import Literal

import msgspec

FinishReason = Literal["stop", "length"]


class PromptDetails(msgspec.Struct, frozen=True):
    cached_tokens: int


class Usage(msgspec.Struct, frozen=True):
    """Tokens, measured: cached ones are those the engine did not compute; an end token counts as generated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class ChatMessage(msgspec.Struct, frozen=True):
    role: str
    content: str
    refusal: None = None


class ChatDelta(msgspec.Struct, frozen=True, omit_defaults=True):
    role: str | None = None
    content: str | None = None


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    message: ChatMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: None = None


class ChatChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    delta: ChatDelta
    finish_reason: FinishReason | None
    index: int = 0
    logprobs: None = None


class TextChoice(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    finish_reason: FinishReason | None
    index: int = 0
    logprobs: None = None


class _Reply(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    created: int
    model: str


class ChatCompletion(_Reply, frozen=True, kw_only=True):
    object: Literal["chat.completion"] = "chat.completion"
    choices: tuple[ChatChoice, ...]
    usage: Usage


class ChatChunk(_Reply, frozen=True, kw_only=True):
    """usage: null until the last chunk where it was asked for, else left out."""

    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    choices: tuple[ChatChunkChoice, ...]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET


class TextCompletion(_Reply, frozen=True, kw_only=True):
    """A whole completion, and each chunk of a streamed one: they have one shape."""

    object: Literal["text_completion"] = "text_completion"
    choices: tuple[TextChoice, ...]
    usage: Usage | msgspec.UnsetType | None = msgspec.UNSET


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """max_model_len: tokens that prompt and answer can have together (vLLM's name)."""

    id: str
    created: int
    max_model_len: int
    object: Literal["model"] = "model"
    owned_by: str = "chatserve"


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[ModelCard, ...]
    object: Literal["list"] = "list"
