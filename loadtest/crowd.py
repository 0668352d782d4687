"""Many clients at once, spread over processes so that the measuring does not hold up what is measured."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkProcess
from multiprocessing.synchronize import Barrier

from loadtest.answer_stream import BadAnswer
from loadtest.chat_client import Connection, Target, Turn
from loadtest.scenarios import SCENARIOS, questions, system_prompt

UVLOOP = find_spec("uvloop") is not None
"""It only makes clients cheaper."""
START_TOGETHER_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The turn that a conversation ended with."""

    conversation: int
    turn: int
    reason: str


@dataclass(slots=True)
class Crowd:
    """What became of a scenario's conversations. cpu: seconds of each client process."""

    turns: list[Turn] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Share:
    """One process's part of a scenario."""

    name: str
    seed: str
    clients: int
    conversations: Sequence[int]


def send_crowd(target: Target, name: str, seed: str) -> Crowd:
    """All conversations of scenario `name`. Raises RuntimeError when a client process dies.

    Must be called from a process without other threads: it forks.
    """
    scenario = SCENARIOS[name]
    count = min(scenario.processes, scenario.clients, scenario.conversations)
    context = multiprocessing.get_context("fork")
    together = context.Barrier(count)
    started: list[tuple[ForkProcess, Pipe]] = []
    for index in range(count):
        clients = scenario.clients // count + (index < scenario.clients % count)
        share = Share(name, seed, clients, range(index, scenario.conversations, count))
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_client_process, args=(target, share, together, theirs), daemon=True)
        process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        started.append((process, ours))
    whole = Crowd()
    for process, pipe in started:
        try:
            part: Crowd = pipe.recv()
        except EOFError:
            raise RuntimeError(f"a client process of scenario {name} died") from None
        whole.turns += part.turns
        whole.failures += part.failures
        whole.cpu += part.cpu
        process.join()
    return whole


def _client_process(target: Target, share: Share, together: Barrier, result: Pipe) -> None:
    gc.disable()  # a pause here would look like one of the server
    together.wait(START_TOGETHER_WITHIN)
    began = time.process_time()
    with asyncio.Runner(loop_factory=import_module("uvloop" if UVLOOP else "asyncio").new_event_loop) as runner:
        crowd = runner.run(_clients(target, share))
    crowd.cpu.append(time.process_time() - began)
    result.send(crowd)


async def _clients(target: Target, share: Share) -> Crowd:
    crowd, waiting = Crowd(), list(reversed(share.conversations))

    async def client() -> None:
        connection = Connection(target)
        while waiting:
            await _converse(connection, share, waiting.pop(), crowd)
        connection.close()

    await asyncio.gather(*(client() for _ in range(min(share.clients, len(waiting)))))
    return crowd


async def _converse(connection: Connection, share: Share, conversation: int, crowd: Crowd) -> None:
    """Turn after turn, the whole history sent again as text, with the model's own answers in it."""
    messages = [{"role": "system", "content": system_prompt(share.name, share.seed)}]
    for number, question in enumerate(questions(share.name, share.seed, conversation)):
        messages.append({"role": "user", "content": question})
        try:
            sent, answer = await connection.ask(messages, SCENARIOS[share.name].answer)
        except (BadAnswer, OSError, TimeoutError) as error:
            crowd.failures.append(Failure(conversation, number, f"{type(error).__name__}: {error}"))
            return
        crowd.turns.append(Turn.of(conversation, number, sent, answer))
        messages.append({"role": "assistant", "content": answer.text})
