"""Any sequence of turns against the plainest model of them: a dictionary from messages to token ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from sessions.turns import Message

Turn = tuple[str, str]
Known = dict[tuple[str, tuple[Turn, ...]], list[int]]

LETTER = st.sampled_from("ab")
TENANT = st.sampled_from(["", "t"])
EXCHANGE = st.tuples(LETTER, LETTER)
STATELESS = st.tuples(TENANT, st.lists(EXCHANGE, max_size=3).map(tuple), EXCHANGE, st.booleans())
SESSION = st.tuples(TENANT, LETTER, EXCHANGE, st.booleans())


def messages(turns: tuple[Turn, ...]) -> list[Message]:
    return [message for q, a in turns for message in (Message("user", q), Message("assistant", a))]


def run(check: Callable[[SessionManager], Awaitable[Any]]) -> None:
    async def with_store(folder: str) -> None:
        store = await SqliteStore.open(Path(folder) / "sessions.db")
        await check(SessionManager(store))
        await store.close()

    with TemporaryDirectory() as folder:
        asyncio.run(with_store(folder))


@settings(max_examples=60, deadline=None)
@given(st.lists(STATELESS, max_size=12))
def test_a_stateless_request_continues_the_longest_history_that_was_saved(
    requests: list[tuple[str, tuple[Turn, ...], Turn, bool]],
) -> None:
    async def check(manager: SessionManager) -> None:
        known: Known = {}
        fresh = iter(range(10**6))
        for tenant, history, (question, answer), whole in requests:
            lengths = (n for n in range(len(history), 0, -1) if (tenant, history[:n]) in known)
            longest = history[: next(lengths, 0)]
            asked = [*messages(history), Message("user", question)]
            async with manager.stateless(tenant, asked) as turn:
                assert list(turn.history) == messages(longest)
                assert list(turn.history_ids) == known.get((tenant, longest), [])
                assert [*turn.history, *turn.new_messages] == asked
                prompt, output = [next(fresh)], [next(fresh), next(fresh)]
                await (turn.save_whole if whole else turn.save)(prompt, output, answer, "completed")
            before = [] if whole else list(turn.history_ids)
            known[tenant, (*history, (question, answer))] = [*before, *prompt, *output]

    run(check)


@settings(max_examples=60, deadline=None)
@given(st.lists(SESSION, max_size=12))
def test_a_session_is_the_sum_of_its_turns(steps: list[tuple[str, str, Turn, bool]]) -> None:
    async def check(manager: SessionManager) -> None:
        turns: dict[tuple[str, str], tuple[Turn, ...]] = {}
        ids: dict[tuple[str, str], list[int]] = {}
        fresh = iter(range(10**6))
        for tenant, session, (question, answer), whole in steps:
            key = tenant, session
            async with manager.session(tenant, session, [Message("user", question)]) as turn:
                assert list(turn.history) == messages(turns.get(key, ()))
                assert list(turn.history_ids) == ids.get(key, [])
                prompt, output = [next(fresh)], [next(fresh)]
                await (turn.save_whole if whole else turn.save)(prompt, output, answer, "completed")
            turns[key] = (*turns.get(key, ()), (question, answer))
            ids[key] = [*([] if whole else ids.get(key, [])), *prompt, *output]

    run(check)
