"""What a supervisor and its API processes say to each other: lines of JSON over a worker's standard streams."""

from __future__ import annotations

from typing import Final

import msgspec

from chatserve.server.limits import ServerLimits

LONGEST_LINE: Final = 64 * 1024 * 1024
"""Bytes; more than an answer takes, as HTML in JSON in JSON."""


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before the routes of every API process.

    keys_file: the file of API keys.  key: the one key of a server without such a file.  Neither: nobody is asked.
    share_prefixes: between keys.  public_metrics: without a key.  origins: whose pages may read answers.
    requests, tokens: what each key may use in a minute, where its line does not say otherwise.
    """

    keys_file: str | None = None
    key: str | None = None
    share_prefixes: bool = False
    public_metrics: bool = False
    origins: tuple[str, ...] = ()
    requests: int | None = None
    tokens: int | None = None

    @property
    def keyed(self) -> bool:
        """Whether clients need a key."""
        return self.keys_file is not None or self.key is not None


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """What every API process serves.

    source: the model's folder, file or hub id, for its tokenizer.  name: what clients call the model.
    sessions: the file of conversations.  history_ttl: seconds a stateless one can be continued.
    drain: seconds that running answers get.  limits: of what a request may hold.
    """

    source: str
    name: str
    sessions: str
    history_ttl: float
    drain: float
    edge: EdgeSettings = EdgeSettings()
    limits: ServerLimits = ServerLimits()


class WorkerStart(msgspec.Struct, frozen=True, kw_only=True):
    """The first line that a worker reads.

    client: its name to the engine.  row: where it counts in the tally of all.
    listening, tally, meters: file descriptors that it inherits.  log_level: as logging numbers them.
    """

    api: Api
    client: str
    row: int
    rows: int
    listening: int
    tally: int
    meters: int
    log_level: int


class EngineAt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Where the engine listens now; None: it has gone."""

    endpoint: str | None


class Reload(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The API keys are to be read again."""


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A tenant's response, made by whichever worker makes it, is to end; from one worker to all."""

    tenant: str
    turn: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Whichever worker makes this response of a tenant's is to say how far it has come; from one worker to all."""

    ticket: str
    tenant: str
    turn: str


class Found(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What was wanted, as JSON; from the worker that makes it to all, and who asked knows the ticket."""

    ticket: str
    response: str


class Passed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What one worker says to all others of conversations that are followed; it means nothing to their supervisor."""

    said: str


OfResponses = Cancel | Wanted | Found
"""What workers say to each other of responses under way."""
ToWorker = EngineAt | Reload | OfResponses | Passed
"""Every further line that a worker reads."""


class Up(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker serves, and the engine has answered it."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker cannot serve, nor could another one; the reason is a sentence for the operator."""

    reason: str


FromWorker = Up | Refused | OfResponses | Passed
