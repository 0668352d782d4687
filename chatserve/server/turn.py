"""One assistant turn under way: the one path of every endpoint, streamed or not.

The reader pulls. A delta is turned into text when the reader asks for it, so a slow reader costs the ids that the
engine's stream has merged meanwhile and nothing else, and what was read is exactly what is saved.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from chatserve.engine.messages import Delta
from chatserve.engine.port import EngineDied, GenerationStream
from chatserve.server.errors import ApiError, BadRequest, Internal, Unavailable
from chatserve.server.explaining import Explain
from chatserve.server.metrics import TurnTimes
from chatserve.server.recording import Recorder
from chatserve.server.running import RunningTurns
from chatserve.server.wire import FinishReason, PromptDetails, Usage
from chatserve.text.answer import AnswerText
from sessions.store import StoreError
from sessions.turns import Status

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """What of the output is kept: `tokens` generated ones, then `extra` ids for the visible part of a cut token."""

    tokens: int
    extra: tuple[int, ...] = ()


class Turn:
    """One answer: read until None, then `finish`; or `complete`, which does both; or `abandon` at any time.

    id: what it is saved under, where it is.
    finish_reason: None until it has ended by itself; one that its owner cancelled has none.
    held: keeps the conversation to this turn until it is closed.
    shows: whether the client sees text as it is read; a turn of which it saw nothing is not saved unless it finished.
    """

    def __init__(
        self,
        stream: GenerationStream,
        answer: AnswerText,
        recorder: Recorder,
        held: AsyncExitStack,
        running: RunningTurns,
        times: TurnTimes,
        explain: Explain,
        *,
        turn_id: str,
        prompt_tokens: int,
        shows: bool,
    ) -> None:
        self.id = turn_id
        self.created = int(time.time())
        self.finish_reason: FinishReason | None = None
        self.cancelled = False
        self._stream = stream
        self._deltas = aiter(stream)
        self._answer = answer
        self._recorder = recorder
        self._held = held
        self._running = running
        self._times = times
        self._explain = explain
        self._prompt_tokens = prompt_tokens
        self._shows = shows
        self._output: list[int] = []
        self._completion_tokens = 0
        self._prompt_details = PromptDetails(0)
        self._failure: ApiError | None = None
        self._settling: asyncio.Task[None] | None = None

    @property
    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self._prompt_tokens,
            completion_tokens=self._completion_tokens,
            total_tokens=self._prompt_tokens + self._completion_tokens,
            prompt_tokens_details=self._prompt_details,
        )

    @property
    def outcome(self) -> Status:
        """How an answer that was read to its end has ended."""
        if self.cancelled:
            return "cancelled"
        return "length" if self.finish_reason == "length" else "completed"

    @property
    def text(self) -> str:
        """All that was read so far."""
        return self._answer.text

    async def read(self) -> str | None:
        """The next visible text, one token's or, to a slow reader, several; None at the end. Raises ApiError."""
        while self.finish_reason is None and not self.cancelled:
            delta = await self._next()
            if delta is None or self.cancelled:  # what arrived as it was cancelled is not kept
                return None
            text = self._take(delta)
            if text:
                return text
        return None

    async def complete(self) -> str:
        """The whole answer, read and saved; given up when the caller is cancelled. Raises ApiError."""
        parts = []
        try:
            while (text := await self.read()) is not None:
                parts.append(text)
            await self.finish()
        finally:
            self.abandon()
        return "".join(parts)

    def at_end(self, call: Callable[[], None]) -> None:
        """Have something called when it is saved, or given up."""
        self._held.callback(call)

    async def finish(self) -> None:
        """Return when the answer is saved and the conversation's next turn can begin. Raises ApiError."""
        assert self.finish_reason is not None or self.cancelled, "the answer was not read to its end"
        if self._settling is None:
            kept = Kept(*self._answer.kept) if self._answer.stopped else Kept(len(self._output))
            self._settle(self.outcome, kept)
        await self.settled()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """End the answer wherever it is, for a reader that is gone; after the end it changes nothing."""
        if self._settling is None:
            self._settle("failed" if self._failure else "cancelled", Kept(*self._answer.kept))

    async def cancel(self) -> None:
        """End the answer here because its owner says so, and return when it is saved, even if nothing of it was seen;
        its reader finds an ordinary end. After the end it changes nothing.
        """
        if self._settling is None:
            self.cancelled = True
            self._settle("cancelled", Kept(*self._answer.kept))
        await self.settled()

    async def settled(self) -> None:
        """Return when the answer, ended in whatever way, is saved or given up."""
        assert self._settling is not None, "the answer has not ended"
        await asyncio.shield(self._settling)

    def interrupt(self) -> None:
        """End the answer wherever it is, for a server that is leaving; its reader gets an error."""
        if self._settling is None:
            self._failure = Unavailable(
                "The server is shutting down; what came of the answer was saved.", code="draining"
            )
            self._settle("cancelled", Kept(*self._answer.kept))

    async def _next(self) -> Delta | None:
        """None: it was cancelled. Raises ApiError."""
        if self._failure is not None:
            raise self._failure
        try:
            return await anext(self._deltas)
        except StopAsyncIteration:
            if self.cancelled:
                return None
            raise self._fail(Internal("The engine ended the answer without a reason.")) from None
        except EngineDied:
            raise self._fail(
                Unavailable(
                    "The engine stopped while it answered and is being restarted; send the turn again.",
                    code="engine_died",
                )
            ) from None

    def _take(self, delta: Delta) -> str:
        self._times.note(len(delta.tokens))
        if delta.reuse is not None:
            self._prompt_details = PromptDetails(delta.reuse.tokens, self._explain.reuse(delta.reuse))
        if delta.finish == "refused":
            raise self._fail(BadRequest(delta.error or "The request cannot fit.", code="context_length_exceeded"))
        if delta.finish == "failed" or delta.finish == "dropped":
            raise self._fail(Internal(delta.error or "The engine failed on this request."))
        text = self._push(delta.tokens)
        if self._answer.stopped:
            self.finish_reason = "stop"
            self._completion_tokens = len(self._output)
            return text
        self._completion_tokens = delta.completion_tokens
        if delta.finish is not None:
            text += self._answer.finish()
            self.finish_reason = delta.finish
        return text

    def _push(self, tokens: Sequence[int]) -> str:
        """Token by token: what a merged delta holds after a stop string does not count as generated."""
        parts = []
        for token in tokens:
            self._output.append(token)
            parts.append(self._answer.push((token,)))
            if self._answer.stopped:
                break
        return "".join(parts)

    def _fail(self, failure: ApiError) -> ApiError:
        if self._failure is None:  # an interruption came first
            self._failure = failure
        return self._failure

    def _settle(self, status: Status, kept: Kept) -> None:
        self._stream.stop(kept.tokens)
        ended = status in ("completed", "length")
        self._times.end(self.finish_reason if ended and self.finish_reason else "abort")
        seen = ended or self.cancelled or (self._shows and self._answer.text != "")
        self._settling = self._running.spawn(self._save(status, kept) if seen else self._close())
        self._running.remove(self)

    async def _save(self, status: Status, kept: Kept) -> None:
        output = (*self._output[: kept.tokens], *kept.extra)
        try:
            await self._recorder.save(output, self._answer.text, status, self.usage)
        except StoreError as error:
            logger.error("turn %s was not saved: %s", self.id, type(error).__name__)
            self._failure = Internal("The answer is complete but could not be saved.", code="turn_not_saved")
        finally:
            await self._held.aclose()

    async def _close(self) -> None:
        await self._held.aclose()
