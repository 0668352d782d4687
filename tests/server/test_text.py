"""What of the generated ids becomes visible, through the whole server."""

from __future__ import annotations

import json

import pytest

from tests.server.running_server import MODEL, Running
from tests.server.test_disconnects import HELLO, until
from tests.server.wire_client import WireClient

TEXTS = [
    "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL} \U0001f1e8\U0001f1ff",
    "P\u0159\u00edli\u0161 \u017elu\u0165ou\u010dk\u00fd k\u016f\u0148",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u4f60\u597d",
]


async def both(server: Running, **ask: object) -> tuple[str, str, str]:
    """The answer whole, the same streamed, and why it ended."""
    client = server.openai()
    whole = (await client.chat.completions.create(model=MODEL, **HELLO, **ask)).choices[0]
    stream = await client.chat.completions.create(model=MODEL, **HELLO, **ask, stream=True)
    chunks = [chunk.choices[0] async for chunk in stream]
    assert chunks[-1].finish_reason == whole.finish_reason
    return whole.message.content, "".join(c.delta.content or "" for c in chunks), whole.finish_reason


@pytest.mark.parametrize("text", TEXTS)
async def test_characters_of_several_tokens_come_whole(server: Running, text: str) -> None:
    """A13"""
    server.engine.script = lambda _request: server.parts.tokenizer.encode(text)
    whole, streamed, reason = await both(server)
    assert (whole, streamed, reason) == (text, text, "stop")


async def test_an_answer_cut_inside_a_character_says_so_once_at_its_end(server: Running) -> None:
    """A13"""
    server.engine.script = lambda _request: server.parts.tokenizer.encode("ab\N{GRINNING FACE}")
    whole, streamed, reason = await both(server, max_tokens=4)
    assert whole == streamed == "ab\N{REPLACEMENT CHARACTER}"
    assert reason == "length"


async def test_a_client_that_leaves_inside_a_character_keeps_what_it_saw(server: Running) -> None:
    """A13"""
    cut = server.parts.tokenizer.encode("ab\N{GRINNING FACE}")[:3]
    server.engine.script = lambda _request: cut
    server.engine.pace = 0.05
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO | {"stream": True, "session_id": "s", "stop": "zz"})
    await client.head()
    for _ in range(3):
        await client.chunk()
    client.close()
    await until(lambda: server.engine.last.stopped)
    assert server.engine.last.kept in (2, 3)


@pytest.mark.parametrize(
    ("text", "ask", "visible", "reason", "kept"),
    [
        ("one two three", {"stop": "two"}, "one ", "stop", 4),
        ("one two three", {"stop": ["three", "two"]}, "one ", "stop", 4),
        ("one two three", {"stop": "twox"}, "one two three", "stop", 13),
        ("one two tw", {"stop": "two!"}, "one two tw", "stop", 10),
        ("one \N{GRINNING FACE} two", {"stop": "\N{GRINNING FACE}"}, "one ", "stop", 4),
        ("one two three", {"stop": "two", "extra_body": {"include_stop_str_in_output": True}}, "one two", "stop", 7),
        ("one two three", {"stop": "two", "max_tokens": 5}, "one t", "length", 5),
    ],
)
async def test_no_part_of_a_stop_string_is_ever_sent(
    server: Running, text: str, ask: dict, visible: str, reason: str, kept: int
) -> None:
    """A14: and the engine is told how much of the answer was kept."""
    server.engine.script = lambda _request: server.parts.tokenizer.encode(text)
    server.engine.pace = 0.001
    assert await both(server, **ask) == (visible, visible, reason)
    for stream in server.engine.streams:
        assert stream.request.hold
        assert stream.kept == kept


async def test_after_a_stop_string_the_next_turn_continues_the_visible_text(server: Running) -> None:
    server.engine.script = lambda _request: server.parts.tokenizer.encode("one two three")
    ask = {"model": MODEL, "extra_body": {"session_id": "s"}}
    await server.openai().chat.completions.create(**ask, **HELLO, stop="two")
    second = await server.openai().chat.completions.create(**ask, **HELLO)
    assert server.parts.tokenizer.decode(server.engine.prompt_ids()).startswith("user\nHi\nassistant\none \nuser\nHi")
    assert second.usage.prompt_tokens_details.cached_tokens == 21 + 4


async def test_a_stream_of_a_completion_is_text_from_its_first_space_on(server: Running) -> None:
    server.engine.script = lambda _request: server.parts.tokenizer.encode(" and on")
    client = await WireClient.connect(server.port)
    await client.post("/v1/completions", {"prompt": "On", "stream": True})
    await client.head()
    events = [event.removeprefix(b"data: ") for event in await client.events()]
    chunks = [json.loads(event) for event in events[:-1]]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == " and on"
    assert events[-1] == b"[DONE]\n\n"
