"""One side of a conversation: what its client sends, turn after turn, in either of OpenAI's APIs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from chatserve.bench.dialects import BadAnswer, Chat, Dialect, Responses, shown
from chatserve.bench.outcome import NONSENSE
from chatserve.bench.plan import ConversationPlan, TurnPlan

CONVERSATIONS: Final = "/v1/conversations"


@dataclass(frozen=True, slots=True)
class Manner:
    """How a server is asked.

    fixed_length: answers are as long as was asked, whatever the model wants (`ignore_eos`, which servers of open models
    understand).
    extra: further fields of every request's body.
    """

    model: str
    fixed_length: bool = True
    temperature: float = 0
    extra: Mapping[str, Any] = field(default_factory=dict)


class Talk(Protocol):
    """dialect: of the answers."""

    dialect: Dialect

    @property
    def opening(self) -> str | None:
        """A path to be posted to, with {} as its body, before the first turn; None where there is no need."""
        ...

    def opened(self, body: bytes) -> None:
        """What the opening brought. Raises BadAnswer."""
        ...

    def ask(self, turn: TurnPlan) -> bytes:
        """The body of the next turn's request."""
        ...

    def answered(self, text: str, response_id: str | None) -> None:
        """What came of it, as far as it was read."""
        ...


class Stateless:
    """The whole history is sent again with every turn, with the model's own answers in it."""

    dialect: Dialect = Chat()
    opening: Final = None

    def __init__(self, plan: ConversationPlan, manner: Manner) -> None:
        self._manner = manner
        self._priority = plan.priority
        self._messages = [] if plan.system is None else [_message("system", plan.system)]

    def opened(self, body: bytes) -> None:  # noqa: ARG002
        raise AssertionError("nothing is opened")

    def ask(self, turn: TurnPlan) -> bytes:
        if turn.branch:
            del self._messages[-2:]
        self._messages.append(_message("user", turn.message))
        fields: dict[str, Any] = {
            "model": self._manner.model,
            "messages": self._messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": turn.answer,
            **_as_asked(self._manner, self._priority),
        }
        return json.dumps(fields).encode()

    def answered(self, text: str, response_id: str | None) -> None:  # noqa: ARG002
        self._messages.append(_message("assistant", text))


class Stateful:
    """Only what is new is sent, to a conversation that the server keeps; a branch goes on from an answer before."""

    dialect: Dialect = Responses()
    opening: Final = CONVERSATIONS

    def __init__(self, plan: ConversationPlan, manner: Manner) -> None:
        self._manner = manner
        self._priority = plan.priority
        self._system = plan.system
        self._conversation = ""
        self._answers: list[str] = []
        self._branched = False

    def opened(self, body: bytes) -> None:
        try:
            self._conversation = msgspec.json.decode(body, type=_Opened).id
        except msgspec.DecodeError as error:
            raise BadAnswer(NONSENSE, f"{CONVERSATIONS} gave no conversation: {error}: {shown(body)}") from None

    def ask(self, turn: TurnPlan) -> bytes:
        if turn.branch:
            self._answers.pop()
            self._branched = True
        begins = [_message("system", self._system)] if self._system is not None and not self._answers else []
        fields: dict[str, Any] = {
            "model": self._manner.model,
            "input": [*begins, _message("user", turn.message)],
            "stream": True,
            "max_output_tokens": turn.answer,
            **_as_asked(self._manner, self._priority),
            **self._place(),
        }
        return json.dumps(fields).encode()

    def answered(self, text: str, response_id: str | None) -> None:  # noqa: ARG002
        if response_id is None:
            raise BadAnswer(NONSENSE, "the response has no id")
        self._answers.append(response_id)

    def _place(self) -> Mapping[str, str]:
        """A branch belongs to no conversation."""
        if not self._branched:
            return {"conversation": self._conversation}
        return {"previous_response_id": self._answers[-1]} if self._answers else {}


class _Opened(msgspec.Struct):
    id: str


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def _as_asked(manner: Manner, priority: int) -> dict[str, Any]:
    """What both APIs call by the same name. A priority of 0 is left out, for servers that know none."""
    fields: dict[str, Any] = {"ignore_eos": True} if manner.fixed_length else {}
    fields["temperature"] = manner.temperature
    return fields | ({"priority": priority} if priority else {}) | dict(manner.extra)
