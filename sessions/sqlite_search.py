"""The search for words in the SQLite file: LIKE proposes, a look at the texts decides."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from sessions.rows import CONVERSATION_COLUMNS, conversation_from_row, messages_from_row
from sessions.search import Hit, hit, in_json, said, spellings
from sessions.sqlite_reads import latest_use, rows
from sessions.turns import Conversation

BLOCK: Final = 64
"""Conversations that are proposed at a time."""
SAYS: Final = "answer LIKE ? OR CAST(messages AS TEXT) LIKE ?"
NAMED: Final = "metadata LIKE ? OR session LIKE ?"


def search(
    connection: sqlite3.Connection, tenant: str, words: Sequence[str], after: str | None, limit: int
) -> list[Hit]:
    place = latest_use(connection, tenant, after)
    finder = _Finder(connection, tenant, words)
    hits: list[Hit] = []
    while len(hits) < limit:
        proposed = finder.propose(place)
        hits += [found for each in proposed if (found := finder.decide(each)) is not None]
        if len(proposed) < BLOCK:
            break
        place = proposed[-1].used, proposed[-1].id
    return hits[:limit]


class _Finder:
    """The statements of one search."""

    def __init__(self, connection: sqlite3.Connection, tenant: str, words: Sequence[str]) -> None:
        self._connection = connection
        self._tenant = tenant
        self._words = words
        patterns = [[(f"%{form}%", f"%{in_json(form)}%") for form in spellings(word)] for word in words]
        # The text comes first: whether a turn is hidden stands at its end, behind its token ids.
        says = [f"(({' OR '.join([SAYS] * len(forms))}) AND NOT hidden)" for forms in patterns]
        named = [" OR ".join([NAMED] * len(forms)) for forms in patterns]
        spoken = [f"EXISTS (SELECT 1 FROM turns WHERE conversation = conversations.id AND {each})" for each in says]
        every = " AND ".join(f"({name} OR {speech})" for name, speech in zip(named, spoken, strict=True))
        self._propose = f"""
            SELECT {CONVERSATION_COLUMNS} FROM conversations
            WHERE tenant = ? AND session IS NOT NULL AND (used, id) < (?, ?) AND {every}
            ORDER BY used DESC, id DESC LIMIT {BLOCK}
        """
        self._texts = f"""
            SELECT id, messages, answer, answered FROM turns
            WHERE conversation = ? AND ({" OR ".join(says)}) ORDER BY number
        """
        self._said = [pattern for forms in patterns for pair in forms for pattern in pair]
        self._asked: list[str] = []
        for forms in patterns:
            self._asked += [pattern for raw, escaped in forms for pattern in (escaped, raw)]
            self._asked += [pattern for pair in forms for pattern in pair]

    def propose(self, place: tuple[float, str]) -> list[Conversation]:
        """Up to BLOCK conversations after this place, the latest used first."""
        found = rows(self._connection, self._propose, self._tenant, *place, *self._asked)
        return [conversation_from_row(row) for row in found]

    def decide(self, conversation: Conversation) -> Hit | None:
        texts: list[str] = []
        for turn, messages, answer, answered in rows(self._connection, self._texts, conversation.id, *self._said):
            texts += said(messages_from_row(turn, messages), answer if answered else None)
        return hit(conversation, texts, self._words)
