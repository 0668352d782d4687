"""Responses that are being made in this process, by their ids."""

from __future__ import annotations

from dataclasses import dataclass

from chatserve.server.response_wire import Notes, Response, answer_item, response
from chatserve.server.turn import Turn


@dataclass(frozen=True, slots=True)
class Live:
    """One of them. index: the answer's place among its turn's messages."""

    turn: Turn
    tenant: str
    notes: Notes
    index: int

    def response(self) -> Response:
        """As far as it has come."""
        item = answer_item(self.turn.id, self.index, self.turn.text, "in_progress")
        return response(self.turn.id, self.notes, "in_progress", (item,))


class LiveResponses:
    def __init__(self) -> None:
        self._live: dict[str, Live] = {}

    def add(self, live: Live) -> None:
        """Until it is saved."""
        self._live[live.turn.id] = live
        live.turn.at_end(lambda: self._remove(live.turn.id))

    def find(self, tenant: str, turn: str) -> Live | None:
        live = self._live.get(turn)
        return live if live is not None and live.tenant == tenant else None

    def _remove(self, turn: str) -> None:
        del self._live[turn]
