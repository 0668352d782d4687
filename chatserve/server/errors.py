"""What a request can be answered with instead of an answer, in OpenAI's shape.

ApiError
├── BadRequest        400  a value or the conversation cannot be used; nothing was started
├── Unauthorized      401  no key, or none that is known here
├── Forbidden         403  the key may not do this
├── Missing           404  no such route, model or conversation
├── WrongMethod       405
├── Conflict          409  what is asked about is in use
├── TooSlow           408  the body did not arrive in time
├── TooLarge          413  the body is over a limit
├── TooBusy           429  a bounded queue is full
│   └── OverRate      429  a key has used what it may use in a minute
├── Internal          500  our fault
└── Unavailable       503  no engine, or the server is leaving
"""

from __future__ import annotations

import http
import math
from collections.abc import Mapping

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

ECHO_LIMIT = 80


class ApiError(Exception):
    """`param` names the field at fault; `code` is for programs, the message for people."""

    status = 500
    type = "server_error"
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code


class BadRequest(ApiError):
    status = 400
    type = "invalid_request_error"


class Unauthorized(ApiError):
    status = 401
    type = "invalid_request_error"
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class Forbidden(ApiError):
    status = 403
    type = "invalid_request_error"


class Missing(ApiError):
    status = 404
    type = "invalid_request_error"


class WrongMethod(ApiError):
    status = 405
    type = "invalid_request_error"


class Conflict(ApiError):
    status = 409
    type = "invalid_request_error"


class TooSlow(ApiError):
    status = 408
    type = "invalid_request_error"
    headers: Mapping[str, str] = {"Connection": "close"}  # what is left of the body may never come


class TooLarge(ApiError):
    status = 413
    type = "invalid_request_error"


class TooBusy(ApiError):
    status = 429
    type = "rate_limit_error"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class OverRate(TooBusy):
    """wait: seconds until there is something to use again."""

    def __init__(self, message: str, *, wait: float) -> None:
        super().__init__(message, code="rate_limit_exceeded")
        self.headers = {"Retry-After": str(max(1, math.ceil(wait)))}


class Internal(ApiError):
    status = 500
    type = "server_error"


class Unavailable(ApiError):
    status = 503
    type = "service_unavailable"
    headers: Mapping[str, str] = {"Retry-After": "1"}


class ErrorDetail(msgspec.Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    error: ErrorDetail


def shown(value: object) -> str:
    """A value as an error message may repeat it: ASCII, bounded, and safe for half a surrogate pair."""
    if isinstance(value, str):
        text = ascii(value[:ECHO_LIMIT])
        return text if len(value) <= ECHO_LIMIT else f"{text[:ECHO_LIMIT]}... ({len(value)} characters)"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    text = ascii(value)
    return text if len(text) <= ECHO_LIMIT else f"{text[:ECHO_LIMIT]}..."


def error_body(error: ApiError) -> ErrorBody:
    """The error for a response, or for one event of a stream that has begun."""
    return ErrorBody(ErrorDetail(error.message, error.type, error.param, error.code))


def error_response(error: ApiError) -> Response:
    content = msgspec.json.encode(error_body(error))
    return Response(content, error.status, error.headers, media_type="application/json")


async def answer_api_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own errors (no such route, wrong method) in the API's shape."""
    assert isinstance(error, HTTPException)
    path = shown(request.url.path)
    if error.status_code == 404:
        return error_response(Missing(f"There is no route {path}.", code="route_not_found"))
    if error.status_code == 405:
        response = error_response(
            WrongMethod(f"{path} does not take {shown(request.method)}.", code="method_not_allowed")
        )
        response.headers["Allow"] = (error.headers or {}).get("Allow", "")
        return response
    plain = ApiError(http.HTTPStatus(error.status_code).phrase)
    return Response(
        msgspec.json.encode(error_body(plain)), error.status_code, error.headers, media_type="application/json"
    )


async def answer_bug(_request: Request, _error: Exception) -> Response:
    """What nobody foresaw: the client learns only that it happened, never the exception's text."""
    return error_response(Internal("The server failed while it handled this request.", code="internal_error"))
