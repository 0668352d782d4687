"""What a turn costs as everything around it grows a hundredfold: conversations, its own history, the rTree, the store.

    python -m loadtest.growth

Small, ten and a hundred times as large stand beside each other, and each act is done in turn in all of them, again and
again: what else the machine does meets them all alike, and the ratios hold. Host memory and SQLite; nothing is
computed.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvloop

from loadtest.growth_memory import Held
from loadtest.growth_store import Kept
from loadtest.report import keep, options

TIMES = (1, 10, 100)
CONVERSATIONS, HISTORY, TURNS = 100, 1_000, 10
"""At 1: conversations, tokens of the one that is measured, and turns of it in the store."""
ROUNDS = 40

Timed = Mapping[str, Callable[[], Awaitable[float]]]


async def measure(grown: Sequence[Timed], rounds: int) -> list[dict[str, float]]:
    """Median microseconds of each act in each of these."""
    times = [{name: list[float]() for name in acts} for acts in grown]
    for _ in range(rounds):
        for acts, taken in zip(grown, times, strict=True):
            for name, act in acts.items():
                taken[name].append(await act())
    return [{name: round(1e6 * statistics.median(each), 1) for name, each in taken.items()} for taken in times]


def waiting(acts: Mapping[str, Callable[[], float]]) -> Timed:
    """As acts that could be waited for."""

    def later(act: Callable[[], float]) -> Callable[[], Awaitable[float]]:
        async def done() -> float:
            return act()

        return done

    return {name: later(act) for name, act in acts.items()}


def against_the_smallest(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """How much more each act costs in the largest."""
    return {name.removesuffix("_us"): round(rows[-1][name] / rows[0][name], 2) for name in rows[0]}


async def memory(sizes: Sequence[tuple[int, int]], rounds: int) -> dict[str, Any]:
    """sizes: conversations, and tokens of the measured one's history."""
    grown = [Held(*size) for size in sizes]
    rows = await measure([waiting(each.acts()) for each in grown], rounds)
    table = [each.size() | row for each, row in zip(grown, rows, strict=True)]
    for each in grown:
        each.close()
    return {"rows": table, "largest_to_smallest": against_the_smallest(rows)}


async def store(sizes: Sequence[tuple[int, int]], rounds: int) -> dict[str, Any]:
    """sizes: conversations, and turns of the measured one."""
    with TemporaryDirectory() as folder:
        places = [f"sqlite:///{Path(folder, f'{number}.db')}" for number in range(len(sizes))]
        grown = [await Kept.filled(place, *size) for place, size in zip(places, sizes, strict=True)]
        rows = await measure([each.acts() for each in grown], rounds)
        for each in grown:
            await each.close()
    table = [
        {"conversations": conversations, "turns": turns} | row
        for (conversations, turns), row in zip(sizes, rows, strict=True)
    ]
    return {"rows": table, "largest_to_smallest": against_the_smallest(rows)}


async def growth(times: Sequence[int], rounds: int) -> dict[str, Any]:
    """One kind of growth at a time."""
    return {
        "rtree_by_conversations": await memory([(CONVERSATIONS * each, HISTORY) for each in times], rounds),
        "rtree_by_history": await memory([(CONVERSATIONS, HISTORY * each) for each in times], rounds),
        "store_by_conversations": await store([(CONVERSATIONS * each, TURNS) for each in times], rounds),
        "store_by_turns": await store([(CONVERSATIONS, TURNS * each) for each in times], rounds),
    }


def main() -> None:
    chosen = options(__doc__, "growth").parse_args()
    keep(chosen.out, {"rounds": ROUNDS, **uvloop.run(growth(TIMES, ROUNDS))})


if __name__ == "__main__":
    main()
