"""What a chain of turns means to the next prompt: what is known as token ids already, and what is to be encoded."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from sessions.turns import Message, Turn, chain_ids, chain_messages


class Past:
    """The past of a turn with these instructions.

    known: messages whose ids are `ids`, the instructions first.
    pending: messages that come after them and have no ids yet.
    anew: `ids` is empty although there are earlier answers: the instructions are others, or the ids of an answer that
        came from elsewhere are not known; so all is pending.
    """

    def __init__(self, chain: Sequence[Turn], instructions: str | None) -> None:
        told = () if instructions is None else (Message("system", instructions),)
        answered = max((place for place, turn in enumerate(chain, 1) if turn.answer is not None), default=0)
        past = chain[:answered]
        self.anew = answered > 0 and (past[-1].instructions != instructions or not _encoded(past))
        self.known: tuple[Message, ...] = ()
        self.ids = array("i")
        if answered and not self.anew:
            self.known = (*told, *chain_messages(chain[:answered]))
            self.ids = chain_ids(chain)
            self.pending = chain_messages(chain[answered:])
        else:
            self.pending = (*told, *chain_messages(chain))


def _encoded(past: Sequence[Turn]) -> bool:
    """Whether all answers since the last restart have their ids."""
    start = max((place for place, turn in enumerate(past) if turn.restarts), default=0)
    return all(turn.prompt_ids or turn.output_ids for turn in past[start:] if turn.answer is not None)
