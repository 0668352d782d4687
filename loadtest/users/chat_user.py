"""A Locust user that holds conversations, one after another, and reads every answer to its end mark."""

# mypy: disable-error-code="no-untyped-call"
from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import count
from typing import ClassVar

from geventhttpclient.client import HTTPClientPool
from locust import FastHttpUser, task
from locust.env import Environment
from locust.event import EventHook
from locust.exception import CatchResponseError, StopUser
from locust.user.task import LOCUST_STATE_STOPPING

from chatserve.bench.dialects import BadAnswer
from chatserve.bench.measuring import Asked, Reading, check_status
from chatserve.bench.outcome import Failure, Outcome
from chatserve.bench.plan import TurnPlan
from chatserve.bench.talks import Manner, Stateful, Stateless, Talk
from loadtest.users.following import TimedHeaders, follow, sent_at
from loadtest.users.knobs import Knobs

MODELS = "/v1/models"
BLOCK = 1 << 16
IDLE = 2.0
"""Seconds after which a connection is not used again: the server may just be closing it."""
AFTER_FAILURE = 0.5
"""Seconds that a user waits then: a server that refuses at once is not to be hammered."""
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream",
    "Accept-Encoding": "identity",  # a compressed stream comes when its compressor likes
}


class ChatUser(FastHttpUser):
    """Set on the class before the first user comes, and again when a run begins anew:

    knobs: what was asked for.  refusal: why that cannot be done, if it cannot.
    began: when.  numbers: of the conversations of this process.
    turn_ended: Locust's kind of event, fired with each turn's `outcome`.
    """

    abstract = True
    turn_ended: ClassVar[EventHook] = EventHook()
    knobs: Knobs
    refusal: str = ""
    client_pool: HTTPClientPool
    began: float = 0.0
    numbers: Iterator[int] = count()

    def __init__(self, environment: Environment) -> None:
        patience, key = self.knobs.patience, self.knobs.key
        self.client_pool = HTTPClientPool(
            concurrency=1,
            block_size=BLOCK,
            network_timeout=patience,
            connection_timeout=patience,
            headers_type=TimedHeaders,
        )
        self.default_headers = {"Authorization": f"Bearer {key}"} if key else {}
        super().__init__(environment)

    def on_start(self) -> None:
        """Know the model. A run that cannot be done shows why where failures are shown."""
        if self.refusal:
            told = CatchResponseError(self.refusal)
            self.environment.events.request.fire(
                request_type="", name="arguments", response_time=0, response_length=0, exception=told, context={}
            )
            raise StopUser
        self._manner = Manner(model=self.knobs.model or self._first_model(), fixed_length=self.knobs.fixed)

    @task
    def converse(self) -> None:
        """One conversation."""
        if not self._converse():
            time.sleep(AFTER_FAILURE)

    def _converse(self) -> bool:
        """To its last turn or to its first failure; whether there was none."""
        knobs, plan = self.knobs, self.knobs.held.plan(next(self.numbers))
        talk: Talk = Stateful(plan, self._manner) if knobs.stateful else Stateless(plan, self._manner)
        if talk.opening is not None and not self._open(talk, talk.opening):
            return False
        for number, turn in enumerate(plan.turns):
            if number and self._state == LOCUST_STATE_STOPPING:
                return True
            self._think(turn.think)
            due = time.perf_counter()
            asked = Asked(
                conversation=plan.number,
                turn=number,
                due=due,
                exact=turn.answer if knobs.fixed else None,
                branch=turn.branch,
                priority=plan.priority,
                warm=due - self.began < knobs.held.workload.warm_up,
            )
            outcome = self._turn(talk, turn, asked)
            self.turn_ended.fire(outcome=outcome)
            if outcome.failure is not None:
                return False
        return True

    def _think(self, seconds: float) -> None:
        """Other users go on meanwhile: Locust has replaced `sleep`."""
        if seconds > IDLE:
            self.client_pool.close()
        time.sleep(seconds)

    def _first_model(self) -> str:
        with self.client.get(MODELS, catch_response=True) as response:
            if response.status_code == 200:
                return str(json.loads(response.content or b"")["data"][0]["id"])
            response.failure(f"status {response.status_code}: is the server up? --served-model names a model unasked")
        raise StopUser

    def _open(self, talk: Talk, path: str) -> bool:
        """Whether the conversation is there."""
        with self.client.post(path, json={}, catch_response=True) as response:
            try:
                check_status(response.status_code, response.content or b"")
                talk.opened(response.content or b"")
            except BadAnswer as error:
                response.failure(f"{error.kind}: {error}")
                return False
        return True

    def _turn(self, talk: Talk, turn: TurnPlan, asked: Asked) -> Outcome:
        """To Locust one turn is one request, which lasts until its end mark."""
        reading, left, failure = Reading(talk.dialect), False, None
        deadline, path = asked.due + self.knobs.patience, talk.dialect.path
        with self.client.post(
            path, data=talk.ask(turn).decode(), headers=HEADERS, stream=True, catch_response=True
        ) as response:
            try:
                left = follow(response, reading, turn.cancel_after, deadline)
                talk.answered(reading.text, reading.response_id)
            except BadAnswer as error:
                failure = Failure(error.kind, str(error))
            outcome = reading.outcome(asked, sent_at(response), time.perf_counter(), failure=failure, cancelled=left)
            response.request_meta["response_time"] = 1e3 * outcome.e2e
            response.request_meta["response_length"] = len(reading.text)
            if left:
                response.request_meta["name"] = f"{path} (left by its reader)"
            if outcome.failure is not None:
                response.failure(f"{outcome.failure.kind}: {outcome.failure.told}")
            else:
                response.success()
        return outcome
