"""Messages as OpenAI's items, and pages of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from sessions.items import Item
from sessions.turns import Message, Status

ITEM: Final = "msg_"
ItemStatus = Literal["in_progress", "completed", "incomplete"]


class InputText(msgspec.Struct, frozen=True, tag="input_text", tag_field="type"):
    text: str


class OutputText(msgspec.Struct, frozen=True, tag="output_text", tag_field="type"):
    text: str
    annotations: tuple[()] = ()
    logprobs: tuple[()] = ()


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag="message", tag_field="type"):
    """What was said by anybody; only an assistant's words are `output_text`."""

    id: str
    role: str
    content: tuple[InputText | OutputText, ...]
    status: ItemStatus


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """first_id, last_id: null in an empty list."""

    data: tuple[MessageItem, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: Literal["list"] = "list"


def item_id(turn: str, index: int) -> str:
    """The id of a turn's message; its answer comes after all that it was given."""
    return f"{ITEM}{turn}_{index}"


def message_item(turn: str, index: int, message: Message, status: ItemStatus = "completed") -> MessageItem:
    says = OutputText if message.role == "assistant" else InputText
    return MessageItem(id=item_id(turn, index), role=message.role, content=(says(message.content),), status=status)


def stored_item(item: Item) -> MessageItem:
    return message_item(item.turn, item.index, item.message, item_status(item.status))


def item_status(status: Status) -> ItemStatus:
    """An answer that did not end by itself is incomplete."""
    return "completed" if status == "completed" else "incomplete"


def item_list(items: Sequence[MessageItem], more: bool) -> ItemList:
    ids = [item.id for item in items]
    return ItemList(
        data=tuple(items), first_id=ids[0] if ids else None, last_id=ids[-1] if ids else None, has_more=more
    )
