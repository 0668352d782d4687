"""From what a client asks to a turn under way: its history found, its prompt encoded, the engine asked."""

from __future__ import annotations

import asyncio
import uuid
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import msgspec

from chatserve.engine.messages import Generate
from chatserve.engine.port import EnginePort, EngineUnavailable
from chatserve.server.asks import Bounds, CompletionAsk, Options, context_exceeded
from chatserve.server.chat_asks import ChatAsk
from chatserve.server.errors import BadRequest, Unavailable
from chatserve.server.explaining import Explain
from chatserve.server.finding import chat_turn, response_turn
from chatserve.server.limits import ServerLimits
from chatserve.server.metrics import Metrics, TurnTimes
from chatserve.server.recording import Append, Detail, Forget, Recorder, Rewrite, no_detail
from chatserve.server.response_asks import ResponseAsk
from chatserve.server.running import RunningTurns
from chatserve.server.turn import Turn
from chatserve.server.visit import Visit
from chatserve.text.answer import AnswerText
from chatserve.text.errors import InvalidInput
from chatserve.text.messages import Message as PromptMessage
from chatserve.text.messages import role_of
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.open_turn import OpenTurn
from sessions.removal import remaining, removes
from sessions.turns import Message, pack_ids

ID_BYTES = 4


class TurnOpener:
    """Opens turns for every endpoint; all of them raise ApiError."""

    def __init__(
        self,
        engine: EnginePort,
        tokenizer: Tokenizer,
        prompt: ChatPrompt,
        sessions: SessionManager,
        running: RunningTurns,
        metrics: Metrics,
        limits: ServerLimits,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._prompt = prompt
        self._sessions = sessions
        self._running = running
        self._metrics = metrics
        self._inline_text = limits.inline_text
        self._encoders = ThreadPoolExecutor(limits.encoders, thread_name_prefix="encode")

    def bounds(self) -> Bounds:
        """What requests are checked against now. Raises Unavailable when nothing can be asked."""
        self._running.check_open()
        if self._engine.info is None:
            raise Unavailable("The model is still being loaded; see /ready.", code="not_ready")
        return Bounds.of(self._engine.info)

    async def chat(self, ask: ChatAsk, bounds: Bounds) -> Turn:
        """A turn of a conversation: a session's next one, or one found by all its messages."""
        return await self._answer(chat_turn(self._sessions, ask), ask.options, bounds, "messages", no_detail)

    async def response(self, ask: ResponseAsk, bounds: Bounds, detail: Detail) -> Turn:
        """A turn of a conversation: the next one of a named one, or a branch at any past answer, or a first one.

        detail: what is kept with the answer.
        """
        return await self._answer(response_turn(self._sessions, ask), ask.options, bounds, "input", detail)

    async def going_on(
        self, opening: AbstractAsyncContextManager[OpenTurn], options: Options, bounds: Bounds, detail: Detail
    ) -> Turn:
        """A turn at a place that somebody else knows how to find."""
        return await self._answer(opening, options, bounds, "input", detail)

    async def _answer(
        self,
        opening: AbstractAsyncContextManager[OpenTurn],
        options: Options,
        bounds: Bounds,
        param: str,
        detail: Detail,
    ) -> Turn:
        """param: the field that holds the messages, for what is wrong with them."""
        times = TurnTimes(self._metrics)
        async with AsyncExitStack() as held:
            opened = await held.enter_async_context(opening)
            prompt, recorder = await self._chat_prompt(opened, param, detail)
            request = self._request(
                options, prompt, bounds, param, turn_ends=self._prompt.end_ids, label=opened.conversation.id
            )
            answer = AnswerText(self._tokenizer, options.stops, options.include_stop)
            explain = self._explaining(prompt, opened.history_ids, options)
            return self._start(
                request, answer, recorder, held, times, explain, opened.turn_id, options.visit, shows=options.stream
            )

    async def completion(self, ask: CompletionAsk, bounds: Bounds) -> Turn:
        """A turn of no conversation: the prompt as it is."""
        times = TurnTimes(self._metrics)
        prompt = array("i", await self._completion_prompt(ask.prompt))
        request = self._request(ask.options, prompt, bounds, "prompt")
        answer = AnswerText(self._tokenizer, ask.options.stops, ask.options.include_stop, continues=True)
        return self._start(
            request,
            answer,
            Forget(),
            AsyncExitStack(),
            times,
            self._explaining(prompt, array("i"), ask.options),
            uuid.uuid4().hex,
            ask.options.visit,
            shows=ask.options.stream,
        )

    async def _completion_prompt(self, prompt: str | tuple[int, ...]) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        return await self._encoded(len(prompt), lambda: self._tokenizer.encode_prompt(prompt))

    async def _chat_prompt(self, opened: OpenTurn, param: str, detail: Detail) -> tuple[array[int], Recorder]:
        """Token-exact: stored ids stay as they are and only what is new is encoded, where the template allows it."""
        history, new = opened.history, opened.new_messages
        if history and self._prompt.append_only and not removes(new):
            ids = await self._rendered(self._prompt.following, new, param)
            return opened.history_ids + ids, Append(opened, ids, detail)
        ids = await self._rendered(self._prompt.whole, remaining((*history, *new)), param)
        return ids, Rewrite(opened, ids, detail) if history else Append(opened, ids, detail)

    async def _rendered(
        self, render: Callable[[Sequence[PromptMessage]], Sequence[int]], messages: Sequence[Message], param: str
    ) -> array[int]:
        size = sum(len(message.content) for message in messages)
        texts = [PromptMessage(role_of(message.role), message.content, message.name) for message in messages]
        try:
            return array("i", await self._encoded(size, lambda: render(texts)))
        except InvalidInput as error:
            raise BadRequest(str(error), param=param, code="invalid_prompt") from None

    async def _encoded(self, size: int, encode: Callable[[], Sequence[int]]) -> Sequence[int]:
        """Short text at once; long text in a thread, of which there are few, so that streams keep their pace."""
        if size <= self._inline_text:
            return encode()
        return await asyncio.get_running_loop().run_in_executor(self._encoders, encode)

    def _request(
        self,
        options: Options,
        prompt: array[int],
        bounds: Bounds,
        param: str,
        *,
        turn_ends: tuple[int, ...] = (),
        label: str = "",
    ) -> Generate:
        """What the engine is asked, the answer's length cut to the room beside the prompt. Raises BadRequest.

        turn_ends: tokens that end a turn by the chat template's word, whether or not the model's settings list them.
        label: the conversation's id in the store.
        """
        if not prompt:
            raise BadRequest(
                f"{param} gives no tokens; there is nothing to continue.", param=param, code="empty_prompt"
            )
        room = bounds.max_tokens - len(prompt)
        if room < 1:
            raise context_exceeded(len(prompt), bounds.max_tokens, param)
        params = options.params
        ends = params.stop_token_ids if params.ignore_eos else (*params.stop_token_ids, *turn_ends)
        return Generate(
            id=uuid.uuid4().hex,
            prompt=pack_ids(prompt),
            params=msgspec.structs.replace(
                params, max_tokens=min(params.max_tokens, room), stop_token_ids=tuple(dict.fromkeys(ends))
            ),
            tenant=options.prefixes,
            priority=options.priority,
            hold=bool(options.stops),
            reuse=options.reuse,
            label=label,
        )

    def _explaining(self, prompt: array[int], history: array[int], options: Options) -> Explain:
        return Explain(self._tokenizer, prompt, history, shared=options.visit.caller.shares_prefixes)

    def _start(
        self,
        request: Generate,
        answer: AnswerText,
        recorder: Recorder,
        held: AsyncExitStack,
        times: TurnTimes,
        explain: Explain,
        turn_id: str,
        visit: Visit,
        *,
        shows: bool,
    ) -> Turn:
        """Takes over what is held. Raises Unavailable."""
        self._running.check_open()  # it may have closed while this turn waited for an earlier one
        try:
            stream = self._engine.submit(request)
        except EngineUnavailable:
            raise Unavailable(
                "The engine is not ready to take requests; try again shortly.", code="not_ready"
            ) from None
        turn = Turn(
            stream,
            answer,
            recorder,
            held.pop_all(),
            self._running,
            times,
            explain,
            turn_id=turn_id,
            prompt_tokens=len(request.prompt) // ID_BYTES,
            shows=shows,
        )
        self._running.add(turn)
        visit.turn = turn
        return turn
