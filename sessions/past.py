"""What a chain of turns means to the next prompt: what is known as token ids already, and what is to be encoded."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sessions.turns import Message, Turn, chain_ids, chain_messages


class Past:
    """The past of a turn with these instructions.

    known: messages whose ids are `ids`, the instructions first.
    pending: messages that come after them and have no ids yet.
    anew: `ids` is empty although earlier answers have some: the instructions are others, so all is pending.
    """

    def __init__(self, chain: Sequence[Turn], instructions: str | None) -> None:
        told = () if instructions is None else (Message("system", instructions),)
        answered = max((place for place, turn in enumerate(chain, 1) if turn.answer is not None), default=0)
        self.anew = answered > 0 and chain[answered - 1].instructions != instructions
        self.known: tuple[Message, ...] = ()
        self.ids = array("i")
        if answered and not self.anew:
            self.known = (*told, *chain_messages(chain[:answered]))
            self.ids = chain_ids(chain)
            self.pending = chain_messages(chain[answered:])
        else:
            self.pending = (*told, *chain_messages(chain))
