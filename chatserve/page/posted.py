"""The body of what the page posts: JSON that says so, which no foreign page can send without being asked first."""

from __future__ import annotations

from starlette.requests import Request

from chatserve.server.body import Json, read_json
from chatserve.server.errors import ApiError, shown
from chatserve.server.limits import ServerLimits


class WrongKind(ApiError):
    status = 415
    type = "invalid_request_error"


async def read_posted(request: Request, limits: ServerLimits) -> Json:
    """The body as a JSON object. Raises WrongKind, and what `read_json` does."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise WrongKind(f"The body must be application/json, not {shown(kind)}.", code="content_type")
    return await read_json(request, limits)
