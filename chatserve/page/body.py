"""What a page sends, told from what another site's page could make a browser send."""

from __future__ import annotations

from starlette.requests import Request

from chatserve.server.body import Json, read_json
from chatserve.server.errors import ApiError, shown
from chatserve.server.limits import ServerLimits


class WrongKind(ApiError):
    """A browser asks before it sends JSON anywhere else; everything else it would just send."""

    status = 415
    type = "invalid_request_error"


async def read_page_json(request: Request, limits: ServerLimits) -> Json:
    """The body of a page's POST. Raises WrongKind besides all that `read_json` raises."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        raise WrongKind(f"The body must be sent as application/json, not {shown(kind)}.", code="content_type")
    return await read_json(request, limits)
