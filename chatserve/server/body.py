"""A request's body: bounded while it is read, then JSON or a 400 that says what is wrong with it."""

from __future__ import annotations

import asyncio
import json
import re

from starlette.requests import Request

from chatserve.server.errors import BadRequest, TooLarge, TooSlow, shown
from chatserve.server.limits import ServerLimits

Json = dict[str, object]

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}|\\u[dD][c-fC-F][0-9a-fA-F]{2}")


async def read_json(request: Request, limits: ServerLimits) -> Json:
    """The body as a JSON object. Raises BadRequest, TooLarge, TooSlow and starlette's ClientDisconnect."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequest(f"The body must be application/json, not {shown(kind)}.", code="content_type")
    try:
        async with asyncio.timeout(limits.body_seconds):
            raw = await _read(request, limits.body_bytes)
    except TimeoutError:
        raise TooSlow(f"The body did not arrive within {limits.body_seconds:g} s.", code="body_timeout") from None
    return parse_object(raw)


async def _read(request: Request, limit: int) -> bytes:
    claimed = request.headers.get("content-length", "")
    if claimed.isascii() and claimed.isdigit() and int(claimed[:20]) > limit:
        raise _too_large(limit)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > limit:
            raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(
        f"The body is over the limit of {limit} bytes. A session_id keeps history on the server.",
        code="body_too_large",
    )


def parse_object(raw: bytes) -> Json:
    """Raises BadRequest. A repeated key counts as its last value; NaN and Infinity are left to the fields."""
    if not raw:
        raise BadRequest("The body is empty; it must be a JSON object.", code="invalid_json")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest(f"The body is not UTF-8 (at byte {error.start}).", code="invalid_json") from None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise BadRequest(f"The body is not JSON: {error.msg} ({place}).", code="invalid_json") from None
    except RecursionError:
        raise BadRequest("The body is nested too deeply.", code="invalid_json") from None
    except ValueError:  # an integer of thousands of digits
        raise BadRequest("The body holds a number that is too long.", code="invalid_json") from None
    if not isinstance(value, dict):
        raise BadRequest(f"The body must be a JSON object, not {shown(value)}.", code="invalid_json")
    if _SURROGATE_ESCAPE.search(text):
        _refuse_half_pairs(value)
    return value


def _refuse_half_pairs(value: Json) -> None:
    """Half a surrogate pair is no text: it could be neither encoded for the model nor sent back."""
    for name, field in value.items():
        try:
            json.dumps([name, field], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise BadRequest(
                f"{shown(name)} holds half a surrogate pair, which is not text.",
                param=ascii(name)[1:-1][:80],
                code="invalid_unicode",
            ) from None
        except RecursionError:
            raise BadRequest("The body is nested too deeply.", code="invalid_json") from None
