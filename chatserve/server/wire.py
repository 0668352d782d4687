"""The JSON that goes out, in OpenAI's shapes."""

from __future__ import annotations

from typing import Literal

import msgspec

from chatserve.engine.messages import StopWhy

FinishReason = Literal["stop", "length"]
StopReason = StopWhy | Literal["template_rewrote_history"]


class Token(msgspec.Struct, frozen=True):
    """text: what it says; a part of a character as U+FFFD, a control token by its name."""

    id: int
    text: str


class Stopped(msgspec.Struct, frozen=True):
    """Where reuse ended early. at: tokens before it.

    asked: the prompt's token there.  found: what was there instead, in what was recorded, or in the conversation before
    the template rewrote it; null where nothing was.
    """

    at: int
    why: StopReason
    found: Token | None
    asked: Token | None


class ReuseDetails(msgspec.Struct, frozen=True):
    """The prompt's tokens that were not computed, by where they came from; their sum is `cached_tokens`.

    stopped: null when all but the last token, which is always computed, was reused.
    """

    taken_over: int
    mapped: int
    copied: int
    promoted: int
    stopped: Stopped | None


class PromptDetails(msgspec.Struct, frozen=True):
    """chatserve: ours, left out when nothing was computed."""

    cached_tokens: int
    chatserve: ReuseDetails | msgspec.UnsetType = msgspec.UNSET


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
