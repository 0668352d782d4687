"""What a supervisor and its API processes say to each other: lines of JSON over a worker's standard streams."""

from __future__ import annotations

import msgspec


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """What every API process serves.

    source: the model's folder, file or hub id, for its tokenizer.  name: what clients call the model.
    sessions: the file of conversations.  history_ttl: seconds a stateless one can be continued.
    drain: seconds that running answers get.
    """

    source: str
    name: str
    sessions: str
    history_ttl: float
    drain: float


class WorkerStart(msgspec.Struct, frozen=True, kw_only=True):
    """The first line that a worker reads.

    client: its name to the engine.  row: where it counts in the tally of all.
    listening, tally: file descriptors that it inherits.  log_level: as logging numbers them.
    """

    api: Api
    client: str
    row: int
    rows: int
    listening: int
    tally: int
    log_level: int


class EngineAt(msgspec.Struct, frozen=True, kw_only=True):
    """Every further line that a worker reads: where the engine listens now; None: it has gone."""

    endpoint: str | None


class Up(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker serves, and the engine has answered it."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker cannot serve, nor could another one; the reason is a sentence for the operator."""

    reason: str


FromWorker = Up | Refused
