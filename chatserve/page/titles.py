"""Whose conversation a label names, and how it is called: a few are read at a time, and again now and then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sessions.catalogue import Catalogue
from sessions.store import NotFound, StoreError
from sessions.turns import title_of

AT_ONCE = 64
GOOD_FOR = 10.0
"""Seconds after which a title is read again."""


@dataclass(frozen=True, slots=True)
class _Known:
    """own: the tenant has such a conversation."""

    own: bool
    title: str | None
    at: float


class Titles:
    """Of one tenant. Keeps what was asked for last, and no more.

    at_once: conversations read in one look; of more, the others are read in the next ones.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        tenant: str,
        *,
        at_once: int = AT_ONCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogue = catalogue
        self._tenant = tenant
        self._at_once = at_once
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def of(self, labels: Collection[str]) -> Mapping[str, str | None]:
        """The tenant's own among these, as far as they are known by now; None: one without a title.

        Those that come first are read first. What the store does not answer stays as it was known.
        """
        self._known = {label: self._known[label] for label in labels if label in self._known}
        old = self._clock() - GOOD_FOR
        unknown = [label for label in labels if label not in self._known]
        stale = [label for label, known in self._known.items() if known.at < old]
        stale.sort(key=lambda label: self._known[label].at)
        due = [*unknown, *stale][: self._at_once]
        await asyncio.gather(*map(self._read, due))
        return {label: known.title for label, known in self._known.items() if known.own}

    async def _read(self, label: str) -> None:
        try:
            found = await self._catalogue.conversation(self._tenant, label)
        except NotFound:
            self._known[label] = _Known(own=False, title=None, at=self._clock())
        except StoreError:
            return
        else:
            self._known[label] = _Known(own=True, title=title_of(found) or None, at=self._clock())
