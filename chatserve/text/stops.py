"""Stop strings in a stream: text is held back exactly as long as it may still become one.

The stop that is complete first wins; of those complete at the same character, the longest. So the outcome depends on
the text alone, never on how it was cut into tokens. The stops are matched all at once, a few steps a character however
long they are (Aho and Corasick, "Efficient string matching", 1975).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from chatserve.text.errors import InvalidStop


@dataclass(slots=True)
class _State:
    """What the text so far ends with: the longest beginning of any stop.

    depth: its length. match: the longest stop that the text ends with here, 0 for none.
    """

    depth: int
    match: int = 0
    after: dict[str, _State] = field(default_factory=dict)
    fall: _State | None = None


class StopWatch:
    """Watches one answer's text.

    stopped: a stop is complete; nothing that follows is let through.
    """

    def __init__(self, stops: Sequence[str], include: bool) -> None:
        """include: whether the stop itself is let through at the end. Raises InvalidStop for an empty one."""
        self._start = self._state = _states(stops)
        self._include = include
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What can be shown now: all that can no longer be part of a stop."""
        if self.stopped:
            return ""
        if not self._start.after:  # there are no stops
            return text
        held = self._held + text
        for at, character in enumerate(text, start=len(self._held) + 1):
            self._state = _step(self._state, character)
            if self._state.match:
                self.stopped, self._held = True, ""
                return held[:at] if self._include else held[: at - self._state.match]
        keep = 0 if self._include else self._state.depth
        cut = len(held) - keep
        self._held = held[cut:]
        return held[:cut]

    def flush(self) -> str:
        """At the end: what was held back and has become no stop."""
        held, self._held = self._held, ""
        self._state = self._start
        return held


def _step(state: _State, character: str) -> _State:
    while character not in state.after:
        if state.fall is None:
            return state
        state = state.fall
    return state.after[character]


def _states(stops: Sequence[str]) -> _State:
    start = _State(0)
    for stop in stops:
        if not stop:
            raise InvalidStop("A stop string is empty. Leave it out, or send at least one character.")
        state = start
        for character in stop:
            state = state.after.setdefault(character, _State(state.depth + 1))
        state.match = len(stop)
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for character, following in state.after.items():
            following.fall = start if state.fall is None else _step(state.fall, character)
            following.match = following.match or following.fall.match
            waiting.append(following)
    return start
