"""The next turn of a conversation: what of its prompt is reused, and what that does to the time to the first token.

    python -m loadtest.next_turn

A real server with the demo model on the CPU, eight turns over SSE, the history sent again as text each time. The last
turn's request is then sent with reuse off, and once more with reuse on, in turn, in the same run.
"""

from __future__ import annotations

import random
import statistics
from itertools import pairwise

from loadtest.report import keep, options
from loadtest.server import Answered, Server, running

TURNS = 8
ANSWER_TOKENS = 120
ROUNDS = 3
WORDS = ("time", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state")


def question(turn: int) -> str:
    """Some sixty tokens."""
    return " ".join(random.Random(turn).choices(WORDS, k=60))


def converse(server: Server) -> tuple[list[dict[str, str]], list[Answered]]:
    """All turns; the messages of the last request and every answer."""
    messages: list[dict[str, str]] = []
    answers: list[Answered] = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": question(turn)})
        answers.append(server.chat(messages, max_tokens=ANSWER_TOKENS, ignore_eos=True))
        if turn < TURNS - 1:
            messages.append({"role": "assistant", "content": answers[-1].text})
    return messages, answers


def missed(answers: list[Answered]) -> list[int]:
    """For each turn after the first: earlier prompt and generated tokens that were not reused."""
    return [earlier.prompt + earlier.completion - later.cached for earlier, later in pairwise(answers)]


def main() -> None:
    """One conversation, then its last request again and again."""
    parser = options(__doc__, "next_turn")
    parser.add_argument("--port", type=int, default=8765)
    chosen = parser.parse_args()
    with running(chosen.port) as server:
        messages, answers = converse(server)
        without, again = [], []
        for _ in range(ROUNDS):
            without.append(server.chat(messages, max_tokens=1, reuse_prefix=False).ttft)
            again.append(server.chat(messages, max_tokens=1).ttft)
        stats = server.stats()
    last, cold = answers[-1], statistics.median(without)
    keep(
        chosen.out,
        {
            "turns": [
                {
                    "prompt_tokens": answer.prompt,
                    "cached_tokens": answer.cached,
                    "ttft_ms": round(answer.ttft * 1e3, 1),
                }
                for answer in answers
            ],
            "not_reused_after_the_first_turn": missed(answers),
            "last_turn_ttft_ms": round(last.ttft * 1e3, 1),
            "same_request_without_reuse_ttft_ms": round(cold * 1e3, 1),
            "ratio": round(last.ttft / cold, 4),
            "same_request_again_ttft_ms": round(statistics.median(again) * 1e3, 1),
            "stalls": stats["stalls"],
            "takeovers": stats["takeovers"],
        },
    )


if __name__ == "__main__":
    main()
