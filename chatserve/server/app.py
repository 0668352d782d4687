"""The HTTP application, built from its parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from chatserve.engine.port import EnginePort
from chatserve.server.chat import ChatCompletions
from chatserve.server.completions import Completions
from chatserve.server.conversations import Conversations
from chatserve.server.discretion import keep_users_words_out_of_logs
from chatserve.server.errors import ApiError, answer_api_error, answer_bug, answer_http_error
from chatserve.server.limits import ServerLimits
from chatserve.server.live import LiveResponses
from chatserve.server.memory_routes import memory_routes
from chatserve.server.metrics import Metrics
from chatserve.server.models import ServedModel
from chatserve.server.opening import TurnOpener
from chatserve.server.operating import Operating
from chatserve.server.responses import Responses
from chatserve.server.running import RunningTurns
from chatserve.server.tally import Tally
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager

CLIENT_GONE = 499


def create_app(
    engine: EnginePort,
    tokenizer: Tokenizer,
    prompt: ChatPrompt,
    sessions: SessionManager,
    running: RunningTurns,
    *,
    model_name: str,
    limits: ServerLimits | None = None,
    tally: Tally | None = None,
    live: LiveResponses | None = None,
    extra: Callable[[TurnOpener], Sequence[Route]] = lambda _opener: (),
) -> Starlette:
    """An application over parts that the caller owns, starts and closes; the engine need not be ready yet.

    It is reached through an Edge, which says whose each request is.

    running: the turns under way, shared with whoever drains the server.
    live: the responses that are being made; None: no other process is to be asked about them.
    tally: where the processes of one server count together; None: this one counts alone.
    extra: gives what else is served, and opens its turns as all others are.
    """
    keep_users_words_out_of_logs()
    limits = limits or ServerLimits()
    metrics = Metrics(model_name, tally or Tally())
    opener = TurnOpener(engine, tokenizer, prompt, sessions, running, metrics, limits)
    model = ServedModel(model_name, engine)
    operating = Operating(engine, running, metrics)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", ChatCompletions(opener, model, limits).create, methods=["POST"]),
            Route("/v1/completions", Completions(opener, model, limits).create, methods=["POST"]),
            *_responses(Responses(opener, sessions.catalogue, model, limits, live or LiveResponses())),
            *_conversations(Conversations(sessions, limits)),
            *memory_routes(engine, tokenizer, running, sessions.catalogue),
            Route("/v1/models", model.list),
            Route("/v1/models/{model_id:path}", model.get),
            Route("/health", operating.health),
            Route("/ready", operating.ready),
            Route("/metrics", operating.metrics),
            Route("/admin/stats", operating.stats),
            Route("/admin/flush", operating.flush, methods=["POST"]),
            *extra(opener),
        ],
        exception_handlers={
            ApiError: answer_api_error,
            HTTPException: answer_http_error,
            ClientDisconnect: answer_nobody,
            Exception: answer_bug,
        },
    )
    app.router.redirect_slashes = False
    return app


def _responses(responses: Responses) -> list[Route]:
    one = "/v1/responses/{response_id}"
    return [
        Route("/v1/responses", responses.create, methods=["POST"]),
        Route(one, responses.get, methods=["GET"]),
        Route(one, responses.delete, methods=["DELETE"]),
        Route(f"{one}/cancel", responses.cancel, methods=["POST"]),
        Route(f"{one}/input_items", responses.input_items, methods=["GET"]),
    ]


def _conversations(conversations: Conversations) -> list[Route]:
    one = "/v1/conversations/{conversation_id}"
    return [
        Route("/v1/conversations", conversations.create, methods=["POST"]),
        Route("/v1/conversations", conversations.list, methods=["GET"]),
        Route(one, conversations.get, methods=["GET"]),
        Route(one, conversations.update, methods=["POST"]),
        Route(one, conversations.delete, methods=["DELETE"]),
        Route(f"{one}/items", conversations.items, methods=["GET"]),
        Route(f"{one}/items", conversations.add_items, methods=["POST"]),
        Route(f"{one}/items/{{item_id}}", conversations.item, methods=["GET"]),
        Route(f"{one}/items/{{item_id}}", conversations.delete_item, methods=["DELETE"]),
    ]


async def answer_nobody(_request: Request, _error: Exception) -> Response:
    """The client has gone; the status is for the log."""
    return Response(status_code=CLIENT_GONE)
