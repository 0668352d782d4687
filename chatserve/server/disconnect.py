"""Work for one client, ended when the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

T = TypeVar("T")


async def until_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The work's outcome. Raises ClientDisconnect, the work cancelled and over, when the client left first.

    The request's body must have been read. Work that ends in spite of its cancellation keeps its outcome.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(gone(request.receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        watching.cancel()
        working.cancel()  # no effect on what is done
    await asyncio.wait((working,))
    if working.cancelled():
        raise ClientDisconnect
    return working.result()


async def gone(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
