"""What is asked becomes a request, or is refused by name before anything is spent on it."""

from __future__ import annotations

import msgspec
import numpy as np

from chatserve.engine.messages import Generate
from chatserve.engine.request import Request


class Refused(Exception):
    """This can never be run here; the message names the limit and goes to the user."""


def accept(asked: Generate, *, arrival: int, capacity: int, vocab_size: int) -> Request:
    """A request whose answer is cut to the room that its prompt leaves.

    capacity: tokens one request can ever hold, prompt and answer together. Raises Refused.
    """
    prompt = np.frombuffer(asked.prompt, dtype="<i4")
    if len(prompt) == 0:
        raise Refused("the prompt has no tokens; give at least one")
    if len(prompt) >= capacity:
        raise Refused(f"the prompt has {len(prompt)} tokens and the limit with the answer is {capacity}; shorten it")
    if int(prompt.view(np.uint32).max()) >= vocab_size:  # a negative one is a large one here
        raise Refused(f"the prompt holds a token id outside 0 to {vocab_size - 1}")
    room = capacity - len(prompt)
    return Request(
        id=asked.id,
        tenant=asked.tenant,
        prompt=prompt,
        params=msgspec.structs.replace(asked.params, max_tokens=min(asked.params.max_tokens, room)),
        priority=asked.priority,
        arrival=arrival,
        hold=asked.hold,
        reuse=asked.reuse,
        warms=asked.warms,
        label=asked.label,
    )
