"""The search for words in the SQLite file: LIKE proposes, a look at the texts decides."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sessions import sqlite_reads as reads
from sessions.removal import REMOVED
from sessions.rows import CONVERSATION_COLUMNS, conversation_from_row, messages_from_row
from sessions.search import SPEAKERS, Hit, hit, in_json, said, spellings, texts_left
from sessions.sqlite_reads import latest_use, rows
from sessions.store import NotFound
from sessions.turns import TITLE, Conversation

BLOCK: Final = 64
"""Conversations that are proposed at a time."""
NAMED: Final = f"json_extract(metadata, '$.{TITLE}') LIKE ? OR (session LIKE ? AND session <> 'conv_' || id)"
SAYS: Final = "answer LIKE ? OR CAST(messages AS TEXT) LIKE ?"
SAYS_APART: Final = f"""
    answer LIKE ? OR EXISTS (
        SELECT 1 FROM json_each(CAST(messages AS TEXT)) AS message
        WHERE json_extract(message.value, '$.role') IN {SPEAKERS} AND json_extract(message.value, '$.content') LIKE ?
    )
"""
"""For words that stand around every message."""
NOTED: Final = f"""
    SELECT 1 FROM turns WHERE conversation = ? AND CAST(messages AS TEXT) LIKE '%"role":"{REMOVED}"%' LIMIT 1
"""
"""Something was taken out of it. Within a text, the quotes would be escaped."""
AROUND: Final = '[{"role":"user","content":""},{"role":"assistant","content":"","name":""}]'


def search(
    connection: sqlite3.Connection, tenant: str, words: Sequence[str], after: str | None, limit: int
) -> list[Hit]:
    """A `Store.search`."""
    place = latest_use(connection, tenant, after)
    finder = _Finder(connection, words)
    hits: list[Hit] = []
    while len(hits) < limit:
        proposed = finder.propose(tenant, *place)
        hits += [found for each in proposed if (found := finder.decide(each)) is not None]
        if len(proposed) < BLOCK:
            break
        place = proposed[-1].used, proposed[-1].id
    return hits[:limit]


class _Finder:
    """The statements of one search."""

    def __init__(self, connection: sqlite3.Connection, words: Sequence[str]) -> None:
        self._connection = connection
        self._words = words
        named = [_likely(NAMED, word, plain=True) for word in words]
        says = [_says(word) for word in words]
        every = " AND ".join(
            f"({name.sql} OR EXISTS (SELECT 1 FROM turns WHERE conversation = conversations.id AND {speech.sql}))"
            for name, speech in zip(named, says, strict=True)
        )
        self._propose = f"""
            SELECT {CONVERSATION_COLUMNS} FROM conversations
            WHERE tenant = ? AND session IS NOT NULL AND (used, id) < (?, ?) AND {every}
            ORDER BY used DESC, id DESC LIMIT {BLOCK}
        """
        self._asked = [value for pair in zip(named, says, strict=True) for part in pair for value in part.values]
        self._texts = f"""
            SELECT id, messages, answer, answered FROM turns
            WHERE conversation = ? AND ({" OR ".join(speech.sql for speech in says)}) ORDER BY number
        """
        self._said = [value for speech in says for value in speech.values]

    def propose(self, tenant: str, used: float, name: str) -> list[Conversation]:
        """Up to BLOCK conversations after this place, the latest used first."""
        found = rows(self._connection, self._propose, tenant, used, name, *self._asked)
        return [conversation_from_row(row) for row in found]

    def decide(self, conversation: Conversation) -> Hit | None:
        if conversation.leaf is not None and rows(self._connection, NOTED, conversation.id):
            with contextlib.suppress(NotFound):  # deleted since it was proposed
                chain = reads.chain(self._connection, conversation.leaf)
                texts = texts_left(reads.turns(self._connection, conversation.id), chain)
                return hit(conversation, texts, self._words)
            return None
        texts = []
        for turn, messages, answer, answered in rows(self._connection, self._texts, conversation.id, *self._said):
            texts += said(messages_from_row(turn, messages), answer if answered else None)
        return hit(conversation, texts, self._words)


@dataclass(frozen=True, slots=True)
class _Condition:
    sql: str
    values: tuple[str, ...]


def _says(word: str) -> _Condition:
    """A turn in which a word occurs. The text comes first: whether it is hidden stands at the row's end, behind all of
    its token ids.
    """
    around = any(form in AROUND for form in spellings(word))
    likely = _likely(SAYS_APART, word, plain=True) if around else _likely(SAYS, word, plain=False)
    return _Condition(f"({likely.sql} AND NOT hidden)", likely.values)


def _likely(sql: str, word: str, *, plain: bool) -> _Condition:
    """Any spelling of a word in the two places of `sql`; the second is JSON unless it is plain. What LIKE takes for
    more than itself in a word only lets more through.
    """
    values: list[str] = []
    for form in spellings(word):
        values += (f"%{form}%", f"%{form if plain else in_json(form)}%")
    return _Condition(f"({' OR '.join([sql] * (len(values) // 2))})", tuple(values))
