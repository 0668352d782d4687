"""/page/conversations: what a person has talked about; found, named, shown as a tree, taken along and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.page.export import attachment, read_format
from chatserve.page.importing import read_import
from chatserve.page.page_asks import read_list, read_title
from chatserve.page.posted import read_posted
from chatserve.page.renderings import Renderings
from chatserve.page.shown import shown_tree
from chatserve.page.tree_wire import Row, RowList, Tree
from chatserve.page.views import turn_view
from chatserve.page.watching import Watching
from chatserve.server.errors import Missing
from chatserve.server.fields import Fields
from chatserve.server.finding import no_conversation, reading
from chatserve.server.limits import ServerLimits
from chatserve.server.response_asks import CONVERSATION, RESPONSE
from chatserve.server.tenants import tenant_of
from sessions.manager import SessionManager
from sessions.search import Hit
from sessions.turns import TITLE, Conversation, Turn, title_of

ELSEWHERE: Final = "elsewhere"
"""What is known of a turn that another process makes."""


def conversation_routes(
    sessions: SessionManager, limits: ServerLimits, renderings: Renderings, watching: Watching
) -> list[Route]:
    """watching: is told what is done to a conversation, and knows which turns run in this process."""
    page = PageConversations(sessions, limits, renderings, watching)
    one = "/page/conversations/{conversation_id}"
    return [
        Route("/page/conversations", page.list, methods=["GET"]),
        Route("/page/conversations", page.create, methods=["POST"]),
        Route(one, page.tree, methods=["GET"]),
        Route(one, page.rename, methods=["POST"]),
        Route(one, page.delete, methods=["DELETE"]),
        Route(f"{one}/export", page.export, methods=["GET"]),
        Route("/page/import", page.bring, methods=["POST"]),
    ]


class PageConversations:
    def __init__(
        self, sessions: SessionManager, limits: ServerLimits, renderings: Renderings, watching: Watching
    ) -> None:
        self._sessions = sessions
        self._catalogue = sessions.catalogue
        self._limits = limits
        self._renderings = renderings
        self._watching = watching
        self._renderer = ThreadPoolExecutor(1, thread_name_prefix="render")

    async def list(self, request: Request) -> Response:
        """This caller's, the latest used first; with a query, those in which each of its words occurs."""
        ask, tenant = read_list(Fields(request.query_params)), tenant_of(request)
        with reading(no_conversation(ask.after or "", param="after")):
            if ask.words:
                found = await self._catalogue.search(tenant, ask.words, ask.after, ask.limit)
                hits, more = found.values, found.more
            else:
                page = await self._catalogue.recent(tenant, ask.after, ask.limit)
                hits, more = tuple(Hit(each, None) for each in page.values), page.more
            running = await self._sessions.running(tenant, [hit.conversation for hit in hits])
        rows = tuple(row(hit.conversation, running=hit.conversation.id in running, excerpt=hit.excerpt) for hit in hits)
        return _json(RowList(rows, more))

    async def create(self, request: Request) -> Response:
        body = await read_posted(request, self._limits)
        title = read_title(Fields(body))
        with reading(Missing("The conversation is gone.")):
            made = await self._catalogue.create(tenant_of(request, body), (), {TITLE: title} if title else {})
        return _json(row(made))

    async def rename(self, request: Request) -> Response:
        """Another title in the place of the old one, which may be none; its other metadata stays."""
        body = await read_posted(request, self._limits)
        tenant, name, title = tenant_of(request, body), named(request), read_title(Fields(body), needed=True)
        with reading(no_conversation(name)):
            metadata = (await self._catalogue.conversation(tenant, name)).metadata
            renamed = await self._catalogue.update(tenant, name, {**metadata, TITLE: title})
            running = await self._sessions.running(tenant, [renamed])
        self._watching.renamed(name, title)
        return _json(row(renamed, running=bool(running)))

    async def delete(self, request: Request) -> Response:
        """With all its turns; one that runs in it is saved no more."""
        name = named(request)
        with reading(no_conversation(name)):
            await self._catalogue.delete(tenant_of(request), name)
        self._watching.deleted(name)
        return _json({"id": CONVERSATION + name, "deleted": True})

    async def tree(self, request: Request) -> Response:
        found, turns = await self._shown(request)
        with reading(no_conversation(found.id)):
            busy = await self._sessions.running(found.tenant, [found])
        here = self._watching.running(found.id)
        running = RESPONSE + here if here is not None else ELSEWHERE if busy else None
        loop = asyncio.get_running_loop()
        tree = await loop.run_in_executor(self._renderer, self._tree, found, turns, running)
        return Response(tree, media_type="application/json")

    async def export(self, request: Request) -> Response:
        """As a file: JSON with all branches, or Markdown of what is said on the way to the leaf."""
        kind = read_format(Fields(request.query_params))
        return attachment(*await self._shown(request), kind)

    async def bring(self, request: Request) -> Response:
        """A file of `export`'s, or a list of messages, as a new conversation; all of it or nothing."""
        body = await read_posted(request, self._limits)
        tenant, given = tenant_of(request, body), read_import(body, self._limits)
        with reading(Missing("The conversation is gone.")):
            metadata = {TITLE: given.title} if given.title else {}
            made = await self._catalogue.plant(tenant, given.seeds, given.leaf, metadata)
        return _json(row(made))

    async def _shown(self, request: Request) -> tuple[Conversation, Sequence[Turn]]:
        tenant, name = tenant_of(request), named(request)
        with reading(no_conversation(name)):
            return await shown_tree(self._catalogue, tenant, name)

    def _tree(self, found: Conversation, turns: Sequence[Turn], running: str | None) -> bytes:
        """Runs in a thread: a long conversation takes many milliseconds the first time."""
        head = row(found)
        tree = Tree(
            id=head.id,
            title=head.title,
            created_at=head.created_at,
            used_at=head.used_at,
            leaf=None if found.leaf is None else RESPONSE + found.leaf,
            running=running,
            turns=tuple(turn_view(turn, self._renderings) for turn in turns),
        )
        return msgspec.json.encode(tree)


def row(conversation: Conversation, *, running: bool = False, excerpt: str | None = None) -> Row:
    return Row(
        id=CONVERSATION + conversation.id,
        title=title_of(conversation) or None,
        created_at=int(conversation.created),
        used_at=int(conversation.used),
        running=running,
        excerpt=msgspec.UNSET if excerpt is None else excerpt,
    )


def named(request: Request) -> str:
    """The conversation's id as the store knows it. Raises Missing: none has an id of another kind."""
    name = str(request.path_params["conversation_id"])
    if not name.startswith(CONVERSATION):
        raise no_conversation(name)
    return name.removeprefix(CONVERSATION)


def _json(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
