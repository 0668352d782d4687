"""What each number means. These sentences are printed with every table, and nothing is measured in another way."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Final

DEFINITIONS: Final[Mapping[str, str]] = {
    "send": "the moment when the request's last byte was handed to the socket. In an open loop times count from the "
    "moment when the turn was due, so that a client that is late flatters no server; both moments are kept.",
    "TTFT": "time to first token: from send to the first event that carries text. Headers, an event with a role only "
    "and an empty delta are none. First turns and later turns of a conversation apart.",
    "ITL": "inter-token latency: the time between two successive events with text of one answer. An event counts "
    "once, however many tokens it brings, for a client cannot see them; tokens per event stands beside it.",
    "TPOT": "time per output token: (E2E - TTFT) / (n - 1), of answers with n >= 2 completion tokens, as usage counts "
    "them.",
    "E2E": "from send to the end mark: [DONE], or the event response.completed or response.incomplete.",
    "failure": "a status other than 200, a stream without its end mark or its usage, an error event, an answer of "
    "another length than was asked for where the length is fixed, or one that takes too long. Failures are counted by "
    "kind and are in no latency; their conversation ends. Turns that the client itself cancels are neither failures "
    "nor in a latency.",
    "cached share": "the sum of cached tokens over the sum of prompt tokens, as usage counts them.",
    "goodput": "turns a second that meet every stated limit (--slo), over the same time as turns a second. Failures "
    "meet none; turns that the client cancels are not asked.",
    "rates": "turns and tokens of whole answers over the time from the first counted send to the last end. The steady "
    "rate counts the events with text between the first counted send and the last, times the tokens per event: it "
    "leaves out the end of a load, when fewer and fewer answers run.",
    "percentiles": "over all counted turns (of ITL: over all gaps), interpolated linearly between neighbours. Turns "
    "that were sent while the load was warming up are in no figure.",
}
"""By name, in the order in which they are read."""


def printed(width: int = 110) -> str:
    """All of them, one a paragraph, wrapped."""
    return "\n".join(_paragraph(name, meaning, width) for name, meaning in DEFINITIONS.items())


def _paragraph(name: str, meaning: str, width: int) -> str:
    return textwrap.fill(f"{name}: {meaning}", width, subsequent_indent="    ")
