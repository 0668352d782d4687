"""What a Locust run can be told: its arguments, and the load that they describe."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chatserve.bench.notation import BadNotation, priorities, rate, spread, think
from chatserve.bench.slo import Slo
from chatserve.bench.texts import Generated, Recorded, Texts
from chatserve.bench.workload import Held, Workload
from loadtest.users.shapes import SHAPES

MODES = ("stateless", "stateful")
NONE = ""
"""Stands for what is not given: Locust's page has a field of text for each argument."""


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
        """Raises BadNotation, BadSlo and BadConversations."""
        texts: Texts = Recorded.read(Path(options.conversations)) if options.conversations else Generated()
        workload = Workload(
            seed=whole("--seed", options.seed),
            turns=spread("--turns", options.turns),
            system=whole("--system", options.system),
            system_shared=whole("--system-shared", options.system_shared),
            first=spread("--first", options.first),
            later=spread("--later", options.later),
            answer=spread("--answer", options.answer),
            think=think("--think", options.think),
            branch_rate=rate("--branch-rate", number("--branch-rate", options.branch_rate)),
            cancel_rate=rate("--cancel-rate", number("--cancel-rate", options.cancel_rate)),
            priorities=priorities("--priorities", options.priorities),
            warm_up=number("--warm-up", options.warm_up),
        )
        if options.mode not in MODES:
            raise BadNotation(f"--mode {options.mode!r} is none; there are {' and '.join(MODES)}")
        return cls(
            held=Held(workload, texts),
            model=options.served_model or "",
            key=options.api_key or "",
            stateful=options.mode == "stateful",
            fixed=not options.natural_ends,
            slo=Slo.parse(options.slo) if options.slo else None,
            patience=number("--turn-timeout", options.turn_timeout),
        )


def whole(name: str, text: str) -> int:
    """A whole number of at least 0. Raises BadNotation."""
    if not text.strip().isdecimal():
        raise BadNotation(f"{name}: {text!r} is no whole number of at least 0")
    return int(text)


def number(name: str, text: str) -> float:
    """Of at least 0. Raises BadNotation."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise BadNotation(f"{name}: {text!r} is no number of at least 0; write it as 2 or 0.5")
    return value


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
        ("--priorities", "0", "of conversations, as 0=3,10=1 (priority=weight)"),
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
