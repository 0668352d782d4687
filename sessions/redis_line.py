"""One line of calls to a Redis server: what waits at the same time goes out together, on one connection.

The connection belongs to the line alone. A caller that is cancelled only gives up its answer: its call was made or is
going to be, its reply is read, and no other caller can ever meet it. A call whose connection breaks is made again,
which every script here allows, until its patience ends. Calls are made in their order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoScriptError, RedisError, ResponseError
from redis.exceptions import ConnectionError as Unreachable
from redis.exceptions import TimeoutError as Silent

from sessions.redis_scripts import Script
from sessions.store import StoreClosed, StoreUnavailable

MOST_TOGETHER = 16
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds before a broken connection is tried again; doubled each time."""
REPLY_SECONDS = 5.0
"""A server that says nothing for so long is as good as gone."""

Arg = bytes | str | int | float


class RedisLine:
    """patience: seconds that a call waits for a server that cannot be reached. Raises ValueError for what is no URL of
    a Redis server.
    """

    def __init__(self, url: str, patience: float) -> None:
        pool = ConnectionPool.from_url(
            url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=REPLY_SECONDS,
            socket_connect_timeout=REPLY_SECONDS,
            protocol=2,
        )
        self._connection = pool.make_connection()  # type: ignore[no-untyped-call]  # redis-py's own gap
        self._patience = patience
        self._waiting: deque[_Call] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._closed = False

    async def call(self, script: Script, *args: Arg) -> Any:
        """What the script returns: ints, bytes, None and lists of them. Raises StoreUnavailable, StoreClosed."""
        return await self.submit(script, *args)

    def submit(self, script: Script, *args: Arg) -> asyncio.Future[Any]:
        """A `call` that is in line already. Raises StoreClosed."""
        if self._closed:
            raise StoreClosed("the session store is closed")
        call = _Call(script, args, time.monotonic() + self._patience)
        self._waiting.append(call)
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return call.answer

    async def close(self) -> None:
        """Make the calls that wait, then close the connection."""
        if self._closed:
            return
        self._closed = True
        if self._worker is not None:
            await asyncio.wait((self._worker,))
        await self._connection.disconnect()

    async def _work(self) -> None:
        pause = FIRST_PAUSE
        while self._waiting:
            calls = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            try:
                await self._make(calls)
                pause = FIRST_PAUSE
            except AuthenticationError as error:
                _fail(calls, error)
            except (Unreachable, Silent, OSError) as error:
                self._waiting.extendleft(reversed([call for call in calls if not call.made]))
                self._give_up(error)
                await asyncio.sleep(pause if self._waiting else 0)
                pause = min(2 * pause, LONGEST_PAUSE)
            except RedisError as error:
                _fail(calls, error)

    async def _make(self, calls: Sequence[_Call]) -> None:
        replies = await self._send([packed(b"EVALSHA", call.script.sha, 0, *call.args) for call in calls])
        unknown = [n for n, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
        if unknown:
            again = await self._send([packed(b"EVAL", calls[n].script.text, 0, *calls[n].args) for n in unknown])
            for n, reply in zip(unknown, again, strict=True):
                replies[n] = reply
        for call, reply in zip(calls, replies, strict=True):
            call.settle(reply)

    async def _send(self, requests: Sequence[bytes]) -> list[Any]:
        """The reply to each, errors of a request's own among them. After any other the connection is gone, and with it
        every reply that was not read.
        """
        try:
            await self._connection.connect()  # if it is not
            await self._connection.send_packed_command(b"".join(requests), check_health=False)
            return [await self._reply() for _ in requests]
        except BaseException:
            await self._connection.disconnect(nowait=True)
            raise

    async def _reply(self) -> Any:
        try:
            return await self._connection.read_response()
        except ResponseError as error:
            return error

    def _give_up(self, error: Exception) -> None:
        """Fail those whose patience has ended; the others wait on."""
        now = time.monotonic()
        late = [call for call in self._waiting if call.deadline < now]
        self._waiting = deque(call for call in self._waiting if call.deadline >= now)
        _fail(late, error)


class _Call:
    def __init__(self, script: Script, args: Sequence[Arg], deadline: float) -> None:
        self.script = script
        self.args = args
        self.deadline = deadline
        self.made = False
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.answer.add_done_callback(_look)

    def settle(self, reply: Any) -> None:
        self.made = True
        if self.answer.done():  # its caller has left
            return
        if isinstance(reply, RedisError):
            _fail((self,), reply)
        else:
            self.answer.set_result(reply)


def packed(*request: Arg) -> bytes:
    """A request as the protocol writes it."""
    parts = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in request]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _look(answer: asyncio.Future[Any]) -> None:
    """An error that nobody waits for is no news."""
    if not answer.cancelled():
        answer.exception()


def _fail(calls: Sequence[_Call], error: Exception) -> None:
    """Only the kind of an error is passed on: its words quote what was sent."""
    for call in calls:
        if not call.answer.done():
            call.answer.set_exception(StoreUnavailable(f"the session server failed: {type(error).__name__}"))
