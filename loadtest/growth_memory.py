"""A turn's memory calls in a manager that holds many conversations, or one that is long."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

from vtensor.driver.host import HostDriver
from vtensor.layout import KVLayout
from vtensor.manager import Manager
from vtensor.node import Tokens
from vtensor.reusing import Origin

VOCABULARY = 49_152
STEM = 128
OWN = 100
TURN = 20
"""Tokens: of the prompt that all begin with, of a conversation after it, of a turn."""
CHUNK = 64
LONGEST = 131_072
MOST_NODES = 500


class Held:
    """conversations: recorded, all below one stem, every third a branch of the one before it.

    history: tokens of the conversation whose turns are measured.
    """

    def __init__(self, conversations: int, history: int) -> None:
        layout = KVLayout.choose(
            layers=1, kv_heads=1, head_dim=8, itemsize=4, granularity=4096, max_len=LONGEST, chunk_tokens=CHUNK
        )
        limit = 4 * conversations + 4 * layout.chunks_for(history) + 64
        self.manager = Manager(HostDriver(), layout, slots=16, limit=limit)
        self._random = np.random.default_rng(3)
        stem = self.words(STEM)
        past = stem
        for number in range(conversations):
            past = np.append(past[: STEM + 20] if number % 3 == 2 else stem, self.words(OWN))
            self.record(past, label=str(number))
        self._history = np.append(stem, self.words(history - STEM)) if history > STEM else self.words(history)
        self.record(self._history, label="mine")

    def words(self, length: int) -> Tokens:
        return self._random.integers(0, VOCABULARY, length, dtype=np.int32)

    def record(self, tokens: Tokens, label: str) -> None:
        admitted = self.manager.prefix_match("", np.append(tokens, tokens[:1]), 1)
        self.manager.extend(admitted.vtensor, len(tokens))
        self.manager.prefix_record(admitted.vtensor, "", tokens, label=label)

    def acts(self) -> Mapping[str, Callable[[], float]]:
        """Each does one thing and gives its seconds; all of it is as before after it."""
        return {
            "takeover_and_record_us": self.take_over,
            "branch_us": self.branch,
            "first_turn_us": self.first_turn,
            "picture_us": self.picture,
        }

    def take_over(self) -> float:
        """The conversation's next turn, from its PrefixMatch to its PrefixRecord; nothing is computed between."""
        prompt = np.append(self._history, self.words(TURN))
        began = time.perf_counter()
        admitted = self.manager.prefix_match("", prompt, TURN)
        self.manager.prefix_record(admitted.vtensor, "", self._history)
        took = time.perf_counter() - began
        assert admitted.origin is Origin.TAKEN_OVER
        return took

    def branch(self) -> float:
        """A turn that goes on from the middle of it, and leaves nothing."""
        prompt = np.append(self._history[: len(self._history) // 2], self.words(TURN))
        began = time.perf_counter()
        admitted = self.manager.prefix_match("", prompt, TURN)
        self.manager.release(admitted.vtensor)
        took = time.perf_counter() - began
        assert admitted.origin is Origin.MAPPED
        return took

    def first_turn(self) -> float:
        """A new conversation, from nothing to its PrefixRecord; others go where there is no more room."""
        tokens = self.words(OWN)
        began = time.perf_counter()
        admitted = self.manager.prefix_match("", tokens, len(tokens))
        self.manager.prefix_record(admitted.vtensor, "", tokens)
        return time.perf_counter() - began

    def picture(self) -> float:
        began = time.perf_counter()
        self.manager.picture("", most=MOST_NODES)
        return time.perf_counter() - began

    def size(self) -> dict[str, int]:
        stats = self.manager.stats()
        return {"nodes": stats.recorded_nodes, "tokens": stats.recorded_tokens, "history_tokens": len(self._history)}

    def close(self) -> None:
        self.manager.audit()
        self.manager.close()
