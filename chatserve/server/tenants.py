"""Whose conversations a request is about, where it is no turn's request."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request

from chatserve.server.asks import read_salt
from chatserve.server.fields import Fields
from chatserve.server.visit import visit_of


def tenant_of(request: Request, body: Mapping[str, object] | None = None) -> str:
    """By the caller, and by cache_salt in the body or, where there is none, in the query. Raises BadRequest."""
    salt = read_salt(Fields({**request.query_params, **(body or {})}))
    return visit_of(request).caller.conversations(salt)
