"""The id of a request: the client's own where it can hold no word of anybody's, else one made here."""

from __future__ import annotations

import re
import uuid

_ID = re.compile(r"[0-9a-fA-F-]{16,64}")
"""A UUID's letters or a trace id's. It stands in the logs, so it must not carry a name or a text there."""


def request_id(asked: str | None) -> str:
    """asked: the request's X-Request-Id."""
    return asked if asked is not None and _ID.fullmatch(asked) else uuid.uuid4().hex
