"""Which conversation a request goes on with, and what its store refuses, said as the API says it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from chatserve.server.chat_asks import ChatAsk
from chatserve.server.errors import ApiError, Conflict, Missing, TooBusy, Unavailable
from chatserve.server.response_asks import CONVERSATION, RESPONSE, ResponseAsk
from sessions.gate import SessionBusy
from sessions.manager import SessionManager
from sessions.open_turn import OpenTurn
from sessions.store import NotFound, StoreError
from sessions.turns import Message


def chat_turn(sessions: SessionManager, ask: ChatAsk) -> AbstractAsyncContextManager[OpenTurn]:
    """A session's next turn, or one found by all its messages. Raises ApiError."""
    tenant = ask.options.tenant
    if ask.session_id is None:
        return _opened(sessions.stateless(tenant, ask.messages), None)
    return _opened(sessions.session(tenant, ask.session_id, ask.messages), None)


def response_turn(sessions: SessionManager, ask: ResponseAsk) -> AbstractAsyncContextManager[OpenTurn]:
    """A conversation's next turn, or a branch at a past answer, or at nothing. Raises ApiError."""
    tenant = ask.options.tenant
    if ask.conversation is not None:
        opening = sessions.conversation(
            tenant, ask.conversation, ask.messages, instructions=ask.instructions, stored=ask.store
        )
        return _opened(opening, no_conversation(ask.conversation, param="conversation"))
    opening = sessions.branch(tenant, ask.previous, ask.messages, instructions=ask.instructions, stored=ask.store)
    return _opened(opening, no_response(ask.previous or "", param="previous_response_id"))


def turn_at(
    sessions: SessionManager,
    tenant: str,
    conversation: str,
    parent: str | None,
    message: Message,
    instructions: str | None,
) -> AbstractAsyncContextManager[OpenTurn]:
    """A conversation's turn that goes on from any of its turns, at once or not at all. Raises ApiError."""
    opening = sessions.turn_at(tenant, conversation, parent, (message,), instructions=instructions, wait=False)
    missing = no_conversation(conversation) if parent is None else no_response(parent, param="parent")
    return _opened(opening, missing)


def added_items(
    sessions: SessionManager, tenant: str, conversation: str, messages: tuple[Message, ...]
) -> AbstractAsyncContextManager[OpenTurn]:
    """A conversation's next turn, for messages that nobody answers. Raises ApiError."""
    return _opened(sessions.conversation(tenant, conversation, messages), no_conversation(conversation))


@contextmanager
def reading(missing: ApiError) -> Iterator[None]:
    """For what asks the store outside a turn. missing: what is raised for what is not there, or not this tenant's."""
    try:
        yield
    except NotFound:
        raise missing from None
    except StoreError:
        raise Unavailable("The conversation cannot be read now; try again shortly.", code="store") from None


def no_conversation(conversation: str, param: str | None = None) -> Missing:
    return Missing(f"There is no conversation '{CONVERSATION}{_id(conversation)}'.", param=param, code="not_found")


def no_response(response: str, param: str | None = None) -> Missing:
    code = "not_found" if param is None else "previous_response_not_found"
    return Missing(f"There is no response '{RESPONSE}{_id(response)}'.", param=param, code=code)


def _id(name: str) -> str:
    return ascii(name)[1:-1][:80]


@asynccontextmanager
async def _opened(opening: AbstractAsyncContextManager[OpenTurn], missing: Missing | None) -> AsyncIterator[OpenTurn]:
    """missing: for a named conversation or response; None: for a chat's session, which begins with its first turn."""
    try:
        async with opening as opened:
            yield opened
    except SessionBusy as error:
        if missing is None:
            raise TooBusy(f"This session is busy: {error}.", param="session_id", code="session_busy") from None
        raise Conflict(f"This conversation is busy: {error}.", param="conversation", code="conversation_busy") from None
    except NotFound:
        if missing is not None:
            raise missing from None
        raise Unavailable("The conversation cannot be read now; try again shortly.", code="store") from None
    except StoreError:
        raise Unavailable("The conversation cannot be read now; try again shortly.", code="store") from None
