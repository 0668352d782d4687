"""A client that talks in one conversation, turn after turn, and writes down what it saw of each."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from tests.server.wire_client import WireClient

RESPONSES = "/v1/responses"
LONG = 48
"""Tokens of an answer that is not meant to be read to its end."""
ENDINGS = ("response.completed", "response.incomplete", "response.failed")
PAUSE = 1.0
"""Seconds before somebody who was told of an error tries again."""

End = Literal["completed", "incomplete", "cancelled", "left", "failed", "refused"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One turn as its client knows it.

    response: empty where no id was told.
    end: as the server said; `left` is a client that left in the middle, `refused` one that got an error and no answer.
    code: of the error it was refused with.
    """

    asked: str
    text: str
    end: End
    response: str = ""
    code: str = ""


@dataclass(slots=True)
class Talker:
    """seed: what it will do; the same for the same seed, but for what the server does to it."""

    port: int
    conversation: str
    name: str
    seed: int
    seen: list[Seen] = field(default_factory=list)
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    async def turn(self, *, breaks: float = 0.0) -> Seen:
        """breaks: how often it does not hear the answer out."""
        body = {
            "conversation": self.conversation,
            "input": f"{self.name}, question {len(self.seen)}: {self._random.randrange(1000)}?",
            "max_output_tokens": self._random.randint(4, 8),
            "temperature": 0,
        }
        if self._random.random() < breaks:
            long = body | {"max_output_tokens": LONG, "ignore_eos": True, "stream": True}
            way = self._random.choice(("leaves", "cancels"))
            seen = await self._hears(long, **{way: self._random.randint(1, 4)})
        elif self._random.random() < 0.5:
            seen = await self._hears(body | {"stream": True})
        else:
            seen = await self._waits(body)
        self.seen.append(seen)
        if seen.end in ("failed", "refused"):
            await asyncio.sleep(PAUSE)
        return seen

    async def _waits(self, body: dict[str, Any]) -> Seen:
        """For the whole answer."""
        status, reply = await self._posted(RESPONSES, body)
        if status != 200:
            return Seen(body["input"], "", "refused", code=reply["error"]["code"])
        return Seen(body["input"], text_of(reply), reply["status"], reply["id"])

    async def _hears(self, body: dict[str, Any], *, leaves: int = 0, cancels: int = 0) -> Seen:
        """The answer as it comes, to its end; or leaves without a word after so many pieces of text; or cancels it by
        its id after so many, and hears what still comes.
        """
        name, text, pieces, ending, code = "", "", 0, None, ""
        async with contextlib.aclosing(self._events(body)) as events, asyncio.TaskGroup() as meanwhile:
            async for event in events:
                if event["type"] == "error":
                    code = event["error"]["code"]
                    continue
                name = name or event.get("response", {}).get("id", "")
                if event["type"] in ENDINGS:
                    ending = event["response"]
                elif event["type"] == "response.output_text.delta":
                    text, pieces = text + event["delta"], pieces + 1
                    if pieces == leaves:
                        return Seen(body["input"], text, "left", name)
                    if pieces == cancels:
                        meanwhile.create_task(self._cancel(name))
        if ending is None:
            assert not name, "an answer that began has an end"
            return Seen(body["input"], "", "refused", code=code)
        assert text_of(ending) == text, "the last event repeats what was sent"
        return Seen(body["input"], text, ending["status"], name)

    async def _cancel(self, name: str) -> None:
        """A worker knows the answers that it makes itself: others do not find it, until it has ended."""
        while (await self._posted(f"{RESPONSES}/{name}/cancel", {}))[0] == 404:
            await asyncio.sleep(0.005)

    async def _events(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """The error, when it is refused. The connection ends with whoever reads."""
        client = await WireClient.connect(self.port)
        try:
            await client.post(RESPONSES, body)
            status, headers = await client.head()
            if status != 200:
                yield {"type": "error"} | await client.json(headers)
                return
            while chunk := await client.chunk():
                for line in chunk.splitlines():
                    if line.startswith(b"data: "):
                        yield json.loads(line[6:])
        finally:
            client.vanish()

    async def _posted(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        client = await WireClient.connect(self.port)
        try:
            await client.post(path, body)
            status, headers = await client.head()
            return status, await client.json(headers)
        finally:
            client.close()


def text_of(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item["content"])
