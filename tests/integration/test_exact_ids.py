"""What was generated is what the next turn begins with, whichever way it comes, and what is shown is what was said."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from loadtest.server import free_port
from tests.integration.recital import Recital
from tests.integration.serving import CHAT, Serving, gone, serving, start, told_by, wait_until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

FIRST, NEXT = "Recite.", "Go on."
LONG = 90
EVERYTHING = {"max_tokens": LONG, "ignore_eos": True}


def dialogue(text: str) -> list[dict[str, Any]]:
    """A whole conversation as a stateless client sends it."""
    return [
        {"role": "user", "content": FIRST},
        {"role": "assistant", "content": text},
        {"role": "user", "content": NEXT},
    ]


def test_an_answer_that_would_be_encoded_otherwise_is_matched_by_its_own_ids(
    reciting: Serving, recital: Recital
) -> None:
    """A12: the next turn by text and by session."""
    first = reciting.ask(FIRST, session_id="exact", **EVERYTHING)
    by_text = reciting.ask(FIRST, cache_salt="by text", **EVERYTHING)
    assert first.prompt == recital.asked(FIRST)
    assert first.text == by_text.text == recital.text(first.prompt, LONG)
    assert len(recital.tokenizer.encode(first.text)) < LONG
    for following in (
        reciting.ask(NEXT, session_id="exact", **EVERYTHING),
        reciting.ask("", messages=dialogue(by_text.text), cache_salt="by text", **EVERYTHING),
    ):
        assert following.prompt == first.known + recital.added(NEXT)
        assert following.cached >= first.known - 2
        assert following.text == recital.text(following.prompt, LONG)


def test_a_killed_server_takes_its_engine_along_and_its_successor_goes_on_at_once(
    recital: Recital, tmp_path: Path
) -> None:
    """A12, A47: the same port, the same conversations, the exact ids."""
    port = free_port()
    with serving(str(recital.folder), folder=tmp_path, port=port) as server:
        first = server.ask(FIRST, session_id="kept", **EVERYTHING)
        assert server.ask(FIRST, **EVERYTHING).text == first.text
        engine = server.engine_pid()
        server.process.kill()
        server.process.wait()
        successor = start(str(recital.folder), folder=tmp_path, port=port)
        wait_until(lambda: gone(engine), 5)
    try:
        wait_until(successor.is_ready, 60)
        by_text = successor.ask("", messages=dialogue(first.text), **EVERYTHING)
        by_session = successor.ask(NEXT, session_id="kept", **EVERYTHING)
        assert by_text.cached == 0
        assert by_text.prompt == by_session.prompt == first.known + recital.added(NEXT)
        assert by_session.cached >= first.known + recital.added(NEXT) - 2
        assert by_text.text == by_session.text == recital.text(by_text.prompt, LONG)
        assert successor.told(signal.SIGTERM, 15) == 0
    finally:
        if successor.process.poll() is None:
            os.kill(successor.process.pid, signal.SIGKILL)


async def streamed(port: int, content: str, **fields: Any) -> list[bytes]:
    client = await WireClient.connect(port)
    body = {"messages": [{"role": "user", "content": content}], "temperature": 0, "stream": True} | fields
    await client.post(CHAT, body)
    assert (await client.head())[0] == 200
    events = await client.events()
    client.close()
    return events


async def test_characters_of_several_tokens_come_whole_wherever_the_answer_begins_and_ends(
    reciting: Serving, recital: Recital
) -> None:
    """A13: joined emoji, a flag, Czech, Thai, Chinese; concurrent streams; cut inside a character."""
    lengths = range(20, 104, 6)
    questions = ["Recite" + "!?" * extra for extra in range(len(lengths))]
    streams = await asyncio.gather(
        *(
            streamed(reciting.port, question, max_tokens=length, ignore_eos=True)
            for question, length in zip(questions, lengths, strict=True)
        )
    )
    cut = 0
    for question, length, events in zip(questions, lengths, streams, strict=True):
        text, error = told_by(events)
        assert error is None
        assert text == recital.text(recital.asked(question), length)
        assert reciting.ask(question, max_tokens=length, ignore_eos=True).text == text
        inside = text.strip("\ufffd")
        assert "\ufffd" not in inside, "only where the bytes really begin or end there"
        cut += text.endswith("\ufffd")
    assert cut, "some answer must end inside a character"


async def test_a_stop_string_over_several_tokens_is_never_shown_in_part_and_ends_what_is_known(
    reciting: Serving, recital: Recital
) -> None:
    """A14, A22, A46: the same streamed or not; the next turn begins where the text ended; else an end token ends it."""
    stop = "bcd 12\n"
    asked = {"stop": ["bcd 13", stop], "max_tokens": 300, "ignore_eos": True}
    whole = reciting.ask(FIRST, session_id="stopped", **asked)
    events = await streamed(reciting.port, FIRST, session_id="stopped-stream", **asked)
    shown = recital.text(whole.prompt, 300).partition(stop)[0]
    assert whole.text == told_by(events)[0] == shown
    assert whole.finish == "stop"
    assert b'"finish_reason":"stop"' in events[-2]
    for session in ("stopped", "stopped-stream"):
        following = reciting.ask(NEXT, session_id=session, max_tokens=1)
        kept = following.prompt - whole.prompt - recital.added(NEXT)
        assert recital.text(whole.prompt, kept) == shown
        assert following.cached >= whole.prompt + kept - 2
    natural = reciting.ask(FIRST)
    assert natural.finish == "stop"
    assert natural.text == recital.text(natural.prompt, natural.completion)
    assert recital.says(natural.prompt, natural.completion)[-1] == recital.ids[-1], "an end token counts, once"
