"""Lines that somebody types, without holding up the event loop or the program's end."""

from __future__ import annotations

import asyncio
import threading
from typing import TextIO


class Lines:
    """Reads one line when it is asked for one, in a thread that does not keep the program alive."""

    def __init__(self, source: TextIO) -> None:
        self._source = source

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def give(text: str) -> None:
            if not line.done():
                line.set_result(text)

        def read() -> None:
            text = self._source.readline()
            if not loop.is_closed():
                loop.call_soon_threadsafe(give, text)

        threading.Thread(target=read, daemon=True, name="stdin").start()
        text = await line
        if not text:
            raise StopAsyncIteration
        return text.rstrip("\r\n")
