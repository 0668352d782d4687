"""One request as the edge knows it: whose it is, under which id it is logged, and the turn that it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from starlette.requests import Request
from starlette.types import Scope

from chatserve.server.wire import Usage

KEY_MARK: Final = "\x1f"
"""Ends a key's name in a tenant's; no salt may hold it, so that none can spell another one's tenant."""
_VISIT: Final = "chatserve.visit"


@dataclass(frozen=True, slots=True)
class Rates:
    """What a caller may use in a minute; None: as much as there is.

    tokens: computed ones; what was reused of a prompt is free.
    """

    requests: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the holder of a key, by the key's name, which outlives its secret; without a name: anybody.

    admin: may use the operator's routes.  shares_prefixes: with all other callers; conversations are never shared.
    """

    name: str
    admin: bool = False
    rates: Rates = Rates()
    shares_prefixes: bool = False

    def conversations(self, salt: str) -> str:
        """The tenant whose conversations this caller's are, for a request with this cache_salt."""
        return f"{self.name}{KEY_MARK}{salt}" if self.name else salt

    def prefixes(self, salt: str) -> str:
        """The tenant whose recorded prefixes can be reused."""
        return salt if self.shares_prefixes else self.conversations(salt)


class Used(Protocol):
    """A turn, as far as it has come."""

    @property
    def usage(self) -> Usage: ...


@dataclass(slots=True)
class Visit:
    """One request from its arrival to its end."""

    id: str
    caller: Caller
    turn: Used | None = None

    @property
    def usage(self) -> Usage | None:
        """What its turn used; None when it began none."""
        return None if self.turn is None else self.turn.usage


def begin_visit(scope: Scope, visit: Visit) -> None:
    """Let whatever handles this request know whose it is."""
    scope[_VISIT] = visit


def visit_in(scope: Scope) -> Visit:
    """The visit of a request that has passed the edge."""
    visit = scope[_VISIT]
    assert isinstance(visit, Visit)
    return visit


def visit_of(request: Request) -> Visit:
    """Every endpoint's way to its caller."""
    return visit_in(request.scope)
