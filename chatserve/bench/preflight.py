"""Whether there is anything to measure: asked once, before a load."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.bench.connection import Connection
from chatserve.bench.dialects import BadAnswer, shown
from chatserve.bench.outcome import CUT, NONSENSE, TIMEOUT, UNREACHABLE, of_status
from chatserve.bench.target import Target

MODELS: Final = "/v1/models"
PATIENCE: Final = 10.0
"""Seconds that a server may take to name its models."""
ADVICE: Final = {
    UNREACHABLE: "Is the server up, and is this its address?",
    TIMEOUT: "It takes connections but does not answer.",
    CUT: "It takes connections but does not answer.",
    NONSENSE: "It does not speak HTTP here; is it https:// instead of http://, or the other way round?",
    of_status(401): "It asks for a key: set CHATSERVE_API_KEY, or give --api-key.",
    of_status(403): "It does not let this key in: set CHATSERVE_API_KEY, or give --api-key.",
    of_status(404): "It is no OpenAI-compatible server, or its paths begin elsewhere: give the URL up to its /v1. "
    "With --model the list of models is not needed.",
    of_status(429): "It limits how much this client may ask; try later, or with another key.",
    of_status(503): "It is up but not ready; try again when its model is loaded.",
}


class NotServing(Exception):
    """A server that cannot be measured; the message says why, and what to do."""


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


async def served_model(target: Target, wanted: str | None) -> str:
    """The model to ask for: the one that is wanted, else the first that the server names. Raises NotServing."""
    connection = Connection(target, PATIENCE)
    try:
        page = await connection.fetch("GET", MODELS)
    except BadAnswer as error:
        if wanted is not None and error.kind == of_status(404):
            return wanted
        raise NotServing(f"{target}{MODELS}: {_told(error)}. {ADVICE.get(error.kind, '')}".strip()) from None
    finally:
        connection.close()
    try:
        models = msgspec.json.decode(page, type=_Models).data
    except msgspec.DecodeError:
        raise NotServing(
            f"{target}{MODELS} gave no list of models but {shown(page)!r}. {ADVICE[of_status(404)]}"
        ) from None
    if wanted is None and not models:
        raise NotServing(f"{target} names no model; name one with --model")
    return wanted or models[0].id


def _told(error: BadAnswer) -> str:
    said = str(error).rstrip(". ")
    return said if error.kind in (UNREACHABLE, TIMEOUT) else f"{error.kind}: {said}"
