"""Where the memory of a conversation is found: under its id, under a chat's session id, and at any past answer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from chatserve.engine.port import EnginePort
from chatserve.server.errors import Missing, shown
from chatserve.server.finding import no_conversation, no_response, reading
from chatserve.server.memory import FindIds, Memory
from chatserve.server.response_asks import CONVERSATION, RESPONSE
from chatserve.server.running import RunningTurns
from chatserve.text.tokenizer import Tokenizer
from sessions.catalogue import Catalogue, KnownIds


def memory_routes(engine: EnginePort, tokenizer: Tokenizer, running: RunningTurns, catalogue: Catalogue) -> list[Route]:
    found: dict[str, FindIds] = {
        "/v1/conversations": ByConversation(catalogue),
        "/v1/responses": ByResponse(catalogue),
        "/v1/sessions": BySession(catalogue),
    }
    routes = []
    for path, find in found.items():
        memory = Memory(engine, tokenizer, running, find)
        routes.append(Route(f"{path}/{{name}}/memory", memory.get, methods=["GET"]))
        routes.append(Route(f"{path}/{{name}}/warm", memory.warm, methods=["POST"]))
    return routes


class ByConversation:
    """As its next turn will find it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def __call__(self, request: Request, tenant: str) -> KnownIds:
        name = _name(request)
        if not name.startswith(CONVERSATION):
            raise no_conversation(name)
        name = name.removeprefix(CONVERSATION)
        with reading(no_conversation(name)):
            return await self._catalogue.conversation_ids(tenant, name)


class ByResponse:
    """As a branch at this answer will find it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def __call__(self, request: Request, tenant: str) -> KnownIds:
        name = _name(request).removeprefix(RESPONSE)
        with reading(no_response(name)):
            return await self._catalogue.answer_ids(tenant, name)


class BySession:
    """By the name that a client of /v1/chat/completions gave it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    async def __call__(self, request: Request, tenant: str) -> KnownIds:
        name = _name(request)
        with reading(Missing(f"There is no session {shown(name)}.", code="not_found")):
            return await self._catalogue.session_ids(tenant, name)


def _name(request: Request) -> str:
    return str(request.path_params["name"])
