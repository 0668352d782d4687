"""What a Locust run can be told: its arguments, and the load that they describe."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatserve.bench.slo import Slo
from chatserve.bench.texts import Generated, Recorded, Texts
from chatserve.bench.workload import Held, Share, Spread, Think, Workload
from loadtest.users.shapes import SHAPES

MODES = ("stateless", "stateful")
NONE = ""
"""Stands for what is not given: Locust's page has a field of text for each argument."""


class BadKnob(ValueError):
    """An argument that cannot be used; the message names it and says how to write it."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """model: empty for the first that the server names.  key: of the API, empty for none.

    stateful: the server keeps the conversations.  fixed: answers are exactly as long as is asked for.
    patience: seconds that one turn may take.
    """

    held: Held
    model: str
    key: str
    stateful: bool
    fixed: bool
    slo: Slo | None
    patience: float

    @classmethod
    def read(cls, options: argparse.Namespace) -> Knobs:
        """Raises BadKnob, BadSlo and BadConversations."""
        texts: Texts = Recorded.read(Path(options.conversations)) if options.conversations else Generated()
        workload = Workload(
            seed=whole("--seed", options.seed, least=0),
            turns=spread("--turns", options.turns, least=1),
            system=whole("--system", options.system, least=0),
            system_shared=whole("--system-shared", options.system_shared, least=0),
            first=spread("--first", options.first, least=1),
            later=spread("--later", options.later, least=1),
            answer=spread("--answer", options.answer, least=1),
            think=think("--think", options.think),
            branch_rate=share("--branch-rate", options.branch_rate),
            cancel_rate=share("--cancel-rate", options.cancel_rate),
            priorities=priorities("--priorities", options.priorities),
            warm_up=seconds("--warm-up", options.warm_up),
        )
        if options.mode not in MODES:
            raise BadKnob(f"--mode {options.mode!r} is none; there are {' and '.join(MODES)}")
        return cls(
            held=Held(workload, texts),
            model=options.served_model or "",
            key=options.api_key or "",
            stateful=options.mode == "stateful",
            fixed=not options.natural_ends,
            slo=Slo.parse(options.slo) if options.slo else None,
            patience=seconds("--turn-timeout", options.turn_timeout),
        )


def whole(name: str, text: Any, *, least: int) -> int:
    """A whole number of at least so much. Raises BadKnob."""
    value = str(text).strip()
    if not value.isdecimal() or int(value) < least:
        raise BadKnob(f"{name} {value!r} is no whole number of at least {least}")
    return int(value)


def spread(name: str, text: Any, *, least: int) -> Spread:
    """`40`, or `40:10` for anything from 30 to 50. Raises BadKnob."""
    mean, _, width = str(text).partition(":")
    return Spread(whole(name, mean, least=least), whole(name, width, least=0) if width else 0)


def seconds(name: str, text: Any) -> float:
    """Raises BadKnob."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadKnob(f"{name} {text!r} is no number of seconds; write it as 2 or 0.5")
    return value


def share(name: str, text: Any) -> float:
    """From 0 to 1. Raises BadKnob."""
    value = seconds(name, text)
    if value > 1:
        raise BadKnob(f"{name} {text!r} is more than all; write it as 0.1")
    return value


def think(name: str, text: Any) -> Think:
    """`2`, or `2:0.5`: the median, and the spread of its logarithm. Raises BadKnob."""
    median, _, sigma = str(text).partition(":")
    return Think(seconds(name, median), seconds(name, sigma) if sigma else 0.0)


def priorities(name: str, text: Any) -> tuple[Share, ...]:
    """`0`, or `0:9,10:1`: nine of ten conversations with priority 0, one with 10. Raises BadKnob."""
    shares = []
    for each in str(text).split(","):
        priority, _, weight = each.strip().partition(":")
        if not priority.removeprefix("-").isdecimal():
            raise BadKnob(f"{name} {each!r} is no priority; write it as 0 or 0:9,10:1")
        shares.append(Share(int(priority), seconds(name, weight) if weight else 1.0))
    if not any(each.weight for each in shares):
        raise BadKnob(f"{name} {text!r} gives nobody a priority; one weight must be above 0")
    return tuple(shares)


def add_arguments(parser: Any, **_: Any) -> None:
    """Locust's parser: its type is its own, with fields for its page."""
    load = Workload()
    for name, default, meaning in (
        (
            "--mode",
            MODES[0],
            "stateless: /v1/chat/completions, all sent again; stateful: /v1/responses, a conversation",
        ),
        ("--turns", load.turns, "of a conversation, as 4 or 4:1 (a mean, and how far from it)"),
        ("--system", load.system, "words of the system prompt; 0 for none"),
        ("--system-shared", load.system_shared, "by how many conversations it is shared; 0: all"),
        ("--first", load.first, "words of a first message, as 100 or 100:20"),
        ("--later", load.later, "words of a later one"),
        ("--answer", load.answer, "tokens of an answer"),
        ("--think", load.think, "seconds before a later message, as 2 or 2:0.5 (lognormal: median, sigma)"),
        ("--branch-rate", load.branch_rate, "of later turns, those that take the last exchange's place"),
        ("--cancel-rate", load.cancel_rate, "of turns, those whose reader leaves in the middle"),
        ("--priorities", "0", "of conversations, as 0:9,10:1 (priority:weight)"),
        ("--seed", load.seed, "the same seed is the same load"),
        ("--warm-up", load.warm_up, "seconds; turns sent before are in no figure of the JSON report"),
        ("--conversations", NONE, "a ShareGPT-style JSON file to take the users' messages from"),
        ("--slo", NONE, "limits for goodput, as ttft=500ms,tpot=50ms"),
        ("--served-model", NONE, "the model to ask for (default: the first that the server names)"),
        ("--turn-timeout", 180.0, "seconds that one turn may take"),
        ("--shape", NONE, f"users over time: {', '.join(SHAPES)} (default: --users at once)"),
    ):
        parser.add_argument(name, type=str, default=str(default), help=f"{meaning} (default: {default or 'none'})")
    parser.add_argument("--natural-ends", action="store_true", help="answers end where the model ends them")
    parser.add_argument(
        "--api-key",
        type=str,
        default=NONE,
        env_var="CHATSERVE_API_KEY",
        is_secret=True,
        help="sent as a bearer token (better: CHATSERVE_API_KEY in the environment)",
    )
    parser.add_argument(
        "--figures", type=str, default=NONE, include_in_web_ui=False, help="a JSON file for `chatserve bench report`"
    )
    parser.add_argument(
        "--plots", type=str, default=NONE, include_in_web_ui=False, help="a folder for plots of what was measured"
    )
