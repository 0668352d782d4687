"""A response as OpenAI's clients know it, while it is made, when it ends, and read again from the store."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from chatserve.server.errors import ApiError, BadRequest
from chatserve.server.item_wire import ItemStatus, MessageItem, item_status, message_item
from chatserve.server.response_asks import CONVERSATION, RESPONSE, ResponseAsk
from chatserve.server.wire import ReuseDetails, Usage
from sessions.turns import Message, Status, Turn

ResponseStatus = Literal["in_progress", "completed", "incomplete", "cancelled", "failed"]
_STATUS: Final[dict[Status, ResponseStatus]] = {
    "completed": "completed",
    "length": "incomplete",
    "cancelled": "cancelled",
    "failed": "failed",
}


class InputDetails(msgspec.Struct, frozen=True):
    """cached_tokens: not computed again.  cache_write_tokens: computed, and kept for the next turn.

    chatserve: ours: where they came from, and why there were no more.
    """

    cached_tokens: int
    cache_write_tokens: int
    chatserve: ReuseDetails | msgspec.UnsetType = msgspec.UNSET


class OutputDetails(msgspec.Struct, frozen=True):
    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails = OutputDetails()
    total_tokens: int

    @classmethod
    def of(cls, usage: Usage) -> ResponseUsage:
        details = usage.prompt_tokens_details
        cached = details.cached_tokens
        return cls(
            input_tokens=usage.prompt_tokens,
            input_tokens_details=InputDetails(cached, usage.prompt_tokens - cached, details.chatserve),
            output_tokens=usage.completion_tokens,
            total_tokens=usage.total_tokens,
        )


class ConversationRef(msgspec.Struct, frozen=True):
    id: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    reason: str


class ResponseError(msgspec.Struct, frozen=True):
    code: str
    message: str

    @classmethod
    def of(cls, error: ApiError) -> ResponseError:
        return cls("invalid_prompt" if isinstance(error, BadRequest) else "server_error", error.message)


class Notes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All of a response but its words and its end: what the store keeps as the turn's detail.

    conversation, previous: ids as the store knows them.
    """

    created_at: int
    model: str
    temperature: float
    top_p: float
    instructions: str | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, str] = {}
    conversation: str | None = None
    previous: str | None = None
    store: bool = True
    usage: ResponseUsage | None = None

    @classmethod
    def of(cls, ask: ResponseAsk, model: str, created_at: int) -> Notes:
        return cls(
            created_at=created_at,
            model=model,
            temperature=ask.options.params.temperature,
            top_p=ask.options.params.top_p,
            instructions=ask.instructions,
            max_output_tokens=ask.max_output_tokens,
            metadata=ask.metadata,
            conversation=ask.conversation,
            previous=ask.previous,
            store=ask.store,
        )

    def with_usage(self, usage: Usage) -> Notes:
        return msgspec.structs.replace(self, usage=ResponseUsage.of(usage))


class Reasoning(msgspec.Struct, frozen=True):
    """There is none."""

    effort: None = None
    summary: None = None


class PlainText(msgspec.Struct, frozen=True, tag="text", tag_field="type"):
    """The one format there is."""


class TextSettings(msgspec.Struct, frozen=True):
    format: PlainText = PlainText()


class Response(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: ResponseStatus
    background: bool = False
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: None = None
    model: str
    output: tuple[MessageItem, ...]
    parallel_tool_calls: bool = True
    previous_response_id: str | None
    conversation: ConversationRef | None
    reasoning: Reasoning = Reasoning()
    store: bool
    temperature: float
    text: TextSettings = TextSettings()
    tool_choice: str = "auto"
    tools: tuple[()] = ()
    top_logprobs: int = 0
    top_p: float
    truncation: Literal["disabled"] = "disabled"
    usage: ResponseUsage | None
    user: None = None
    metadata: dict[str, str]


def response(
    turn: str,
    notes: Notes,
    status: ResponseStatus,
    output: tuple[MessageItem, ...],
    *,
    error: ResponseError | None = None,
) -> Response:
    """The response that the store knows as this turn."""
    return Response(
        id=RESPONSE + turn,
        created_at=notes.created_at,
        status=status,
        error=error,
        incomplete_details=IncompleteDetails("max_output_tokens") if status == "incomplete" else None,
        instructions=notes.instructions,
        max_output_tokens=notes.max_output_tokens,
        model=notes.model,
        output=output,
        previous_response_id=None if notes.previous is None else RESPONSE + notes.previous,
        conversation=None if notes.conversation is None else ConversationRef(CONVERSATION + notes.conversation),
        store=notes.store,
        temperature=notes.temperature,
        top_p=notes.top_p,
        usage=notes.usage,
        metadata=notes.metadata,
    )


def answer_item(turn: str, index: int, text: str, status: ItemStatus) -> MessageItem:
    return message_item(turn, index, Message("assistant", text), status)


def ended_response(turn: str, notes: Notes, index: int, text: str, status: Status) -> Response:
    """index: of the answer, among the turn's messages."""
    output = (answer_item(turn, index, text, item_status(status)),)
    error = ResponseError("server_error", "The engine stopped while it answered.") if status == "failed" else None
    return response(turn, notes, _STATUS[status], output, error=error)


def stored_response(turn: Turn, notes: Notes) -> Response:
    assert turn.answer is not None, "messages that were only added are no response"
    return ended_response(turn.id, notes, len(turn.messages), turn.answer, turn.status)
