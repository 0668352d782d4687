"""/v1/conversations: named conversations, their notes and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response as Reply

from chatserve.server.body import Json, read_json
from chatserve.server.errors import Missing, shown
from chatserve.server.fields import Fields
from chatserve.server.finding import added_items, no_conversation, reading
from chatserve.server.item_asks import read_items
from chatserve.server.item_wire import ITEM, item_list, message_item, stored_item
from chatserve.server.lengths import check_length
from chatserve.server.limits import ServerLimits
from chatserve.server.metadata import read_metadata
from chatserve.server.paging import read_stretch, stretch_of
from chatserve.server.response_asks import CONVERSATION
from chatserve.server.tenants import tenant_of
from sessions.items import Item
from sessions.manager import SessionManager
from sessions.removal import remaining_items, removal
from sessions.turns import Conversation

_ALL: Final = 2**31


class ConversationView(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    object: str = "conversation"
    created_at: int
    metadata: dict[str, str]

    @classmethod
    def of(cls, conversation: Conversation) -> ConversationView:
        return cls(
            id=CONVERSATION + conversation.id,
            created_at=int(conversation.created),
            metadata=conversation.metadata,
        )


class ConversationList(msgspec.Struct, frozen=True, kw_only=True):
    data: tuple[ConversationView, ...]
    first_id: str | None
    last_id: str | None
    has_more: bool
    object: str = "list"


class Conversations:
    def __init__(self, sessions: SessionManager, limits: ServerLimits) -> None:
        self._sessions = sessions
        self._catalogue = sessions.catalogue
        self._limits = limits

    async def create(self, request: Request) -> Reply:
        body = await read_json(request, self._limits)
        fields = Fields(body)
        given = fields.values.get("items")
        messages = () if given in (None, []) else read_items(given, "items", self._limits.messages)
        check_length(sum(len(message.content) for message in messages), self._limits.text, "items")
        with reading(Missing("The conversation is gone.")):
            made = await self._catalogue.create(tenant_of(request, body), messages, read_metadata(fields))
        return _json(ConversationView.of(made))

    async def list(self, request: Request) -> Reply:
        """This caller's, newest first: a route of our own, for clients that show them."""
        stretch = read_stretch(Fields(request.query_params))
        after = None if stretch.after is None else stretch.after.removeprefix(CONVERSATION)
        with reading(no_conversation(after or "", param="after")):
            page = await self._catalogue.conversations(tenant_of(request), after, stretch.limit)
        views = tuple(map(ConversationView.of, page.values))
        ids = [view.id for view in views]
        first, last = (ids[0], ids[-1]) if ids else (None, None)
        return _json(ConversationList(data=views, first_id=first, last_id=last, has_more=page.more))

    async def get(self, request: Request) -> Reply:
        return _json(ConversationView.of(await self._found(request)))

    async def update(self, request: Request) -> Reply:
        """Other metadata in the place of the old."""
        body = await read_json(request, self._limits)
        metadata, name = read_metadata(Fields(body)), _named(request)
        with reading(no_conversation(name)):
            updated = await self._catalogue.update(tenant_of(request, body), name, metadata)
        return _json(ConversationView.of(updated))

    async def delete(self, request: Request) -> Reply:
        """With all answers that began in it, branches included."""
        name = _named(request)
        with reading(no_conversation(name)):
            await self._catalogue.delete(tenant_of(request), name)
        return _json({"id": CONVERSATION + name, "object": "conversation.deleted", "deleted": True})

    async def items(self, request: Request) -> Reply:
        """The messages from the first to the last turn, those of branches left out."""
        stretch = read_stretch(Fields(request.query_params))
        items = [stored_item(item) for item in remaining_items(await self._items(request))]
        return _json(item_list(*stretch_of(items, stretch)))

    async def add_items(self, request: Request) -> Reply:
        """Messages that nobody answers; the next response reads them first. They wait for their turn like any other."""
        body: Json = await read_json(request, self._limits)
        messages = read_items(body.get("items"), "items", self._limits.messages)
        check_length(sum(len(message.content) for message in messages), self._limits.text, "items")
        async with added_items(self._sessions, tenant_of(request, body), _named(request), messages) as opened:
            turn = await opened.save_messages()
        items = [message_item(turn.id, index, message) for index, message in enumerate(turn.messages)]
        return _json(item_list(items, False))

    async def item(self, request: Request) -> Reply:
        asked = str(request.path_params["item_id"])
        found = next((item for item in remaining_items(await self._items(request)) if ITEM + item.id == asked), None)
        if found is None:
            raise _no_item(asked)
        return _json(stored_item(found))

    async def delete_item(self, request: Request) -> Reply:
        """Later turns do not read it; answers that were given with it, and branches at them, keep it."""
        tenant, name, asked = tenant_of(request), _named(request), str(request.path_params["item_id"])
        while True:
            items = await self._items(request)
            left = {ITEM + item.id for item in remaining_items(items)}
            if asked not in left:
                raise _no_item(asked)
            back = next(back for back, item in enumerate(reversed(items), 1) if ITEM + item.id == asked)
            async with added_items(self._sessions, tenant, name, (removal(back),)) as opened:
                if len(opened.history) + len(opened.new_messages) == len(items) + 1:  # no turn came between
                    await opened.save_messages()
                    return await self.get(request)

    async def _items(self, request: Request) -> Sequence[Item]:
        """All that were ever in the conversation, the first one first."""
        name = _named(request)
        with reading(no_conversation(name)):
            page = await self._catalogue.items(tenant_of(request), name, limit=_ALL, newest_first=False)
        return page.values

    async def _found(self, request: Request) -> Conversation:
        name = _named(request)
        with reading(no_conversation(name)):
            return await self._catalogue.conversation(tenant_of(request), name)


def _named(request: Request) -> str:
    """The id as the store knows it. Raises Missing: no conversation has an id of another kind."""
    name = str(request.path_params["conversation_id"])
    if not name.startswith(CONVERSATION):
        raise no_conversation(name)
    return name.removeprefix(CONVERSATION)


def _no_item(item: str, param: str | None = None) -> Missing:
    return Missing(f"There is no item {shown(item)} in this conversation.", param=param, code="not_found")


def _json(value: object) -> Reply:
    return Reply(msgspec.json.encode(value), media_type="application/json")
