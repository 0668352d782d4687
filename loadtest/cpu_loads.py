"""Loads on a CPU with the demo model: the notes' table, reuse on and off, a shared prompt, and `transformers serve`.

    python -m loadtest.cpu_loads notes reuse shared transformers

Each load is kept as a record of its own, cpu_NAME.json, which `chatserve bench report` makes a page of; what they come
to, beside what is aimed at, is in cpu_loads.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from chatserve.bench.record import Record
from chatserve.bench.summary import Summary
from chatserve.bench.user import Service
from chatserve.bench.workload import Spread, Workload
from chatserve.model.demo_folder import demo_path
from loadtest.comparing import measured, service_at
from loadtest.kept import RESULTS, Kept, say
from loadtest.server import free_port, running
from loadtest.transformers_serve import TransformersMissing, transformers_serve

SINGLE = Workload(turns=Spread(1), system=32, first=Spread(32), answer=Spread(64))
"""A question and 64 tokens of answer: what the notes' table is made of."""
MULTI = Workload(turns=Spread(6), system=0, first=Spread(1500), later=Spread(30), answer=Spread(24))
"""A long first message, then short turns."""
SHARED = Workload(turns=Spread(1), system=1000, first=Spread(30), answer=Spread(16))
"""A long system prompt that all have in common."""


@dataclass(frozen=True, slots=True)
class Load:
    """users: at once.  rounds: for each server."""

    workload: Workload
    users: int
    conversations: int
    rounds: int = 1

    def quick(self) -> Load:
        """To see whether all of it works: the figures say little."""
        load = self.workload
        shorter = msgspec.structs.replace(
            load,
            turns=Spread(min(3, load.turns.mean)),
            system=load.system // 4,
            first=Spread(max(8, load.first.mean // 4)),
            answer=Spread(load.answer.mean // 4),
        )
        return Load(shorter, min(2, self.users), min(2, self.conversations))


NOTES = {"one": Load(SINGLE, 1, 12), "eight": Load(msgspec.structs.replace(SINGLE, seed=2), 8, 48)}
"""Of two seeds: neither finds the other's prompts computed."""
REUSE = Load(MULTI, users=4, conversations=4, rounds=2)
SHARED_PROMPT = Load(SHARED, users=4, conversations=12)
BESIDE = {"multi_turn": Load(MULTI, users=4, conversations=4), "single_turn": Load(SINGLE, users=8, conversations=24)}
AIMS = {
    "reuse": {"throughput": (">=", 2.5), "ttft_later": ("<=", 0.25)},
    "multi_turn": {"throughput": (">=", 1.5)},
    "single_turn": {"throughput": (">=", 1.0)},
}
"""What is measured second over what is measured first."""


class Loads:
    """Each is measured when it is called, kept under its name in `folder`, and returns what it comes to."""

    def __init__(self, folder: Path, *, quick: bool) -> None:
        self._folder = folder
        self._quick = quick

    def notes(self) -> dict[str, Any]:
        with our_server() as ours:
            records = {name: self._measure(f"notes_{name}", [ours], load) for name, load in NOTES.items()}
        return {f"concurrency {NOTES[name].users}": row(record.summaries[0]) for name, record in records.items()}

    def reuse(self) -> dict[str, Any]:
        with our_server() as ours:
            return compared("reuse", self._measure("reuse", [without_reuse(ours), ours], REUSE))

    def shared(self) -> dict[str, Any]:
        with our_server() as ours:
            return compared("shared", self._measure("shared", [without_reuse(ours), ours], SHARED_PROMPT))

    def transformers(self) -> dict[str, Any]:
        """One server after the other has the machine to itself, so far as it computes."""
        with transformers_serve(demo_path(Path(".models")), "float32") as theirs, our_server() as ours:
            records = {name: self._measure(f"beside_{name}", [theirs, ours], load) for name, load in BESIDE.items()}
        return {name: compared(name, record) for name, record in records.items()}

    def _measure(self, name: str, services: Sequence[Service], load: Load) -> Record:
        load = load.quick() if self._quick else load
        record = measured(
            services, load.workload, users=load.users, conversations=load.conversations, rounds=load.rounds
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"cpu_{name}.json").write_bytes(msgspec.json.encode(record) + b"\n")
        return record


@contextmanager
def our_server() -> Iterator[Service]:
    """The demo model, float32."""
    with running(free_port()) as server:
        yield service_at(server.url)


def without_reuse(service: Service) -> Service:
    """The same server, asked to compute every prompt from its beginning."""
    return replace(service, manner=replace(service.manner, extra={"reuse_prefix": False}))


def row(summary: Summary) -> dict[str, Any]:
    """As the notes have it: means, in ms."""
    means = {name: round(each.mean, 2) for name, each in summary.latencies.items()}
    return {
        "requests_a_second": round(summary.turns_rate, 3),
        "output_tokens_a_second": round(summary.output_rate, 2),
        "ttft_ms_mean": means.get("ttft_first"),
        "ttft_later_ms_mean": means.get("ttft_later"),
        "tpot_ms_mean": means.get("tpot"),
        "total_ms_mean": means.get("e2e"),
        "cached_share": summary.cached_share,
    }


def compared(name: str, record: Record) -> dict[str, Any]:
    """The second server over the first, and whether that is what was aimed at."""
    first, second = record.summaries
    ratios = {"throughput": second.output_rate / first.output_rate}
    ratios |= {each: found.ratio for each, found in (record.ratios or {}).items()}
    return {
        "first": row(first),
        "second": row(second),
        "ratios": {each: round(value, 4) for each, value in ratios.items()},
        "aims": {
            each: {"wanted": f"{sign} {aim}", "met": ratios[each] >= aim if sign == ">=" else ratios[each] <= aim}
            for each, (sign, aim) in AIMS.get(name, {}).items()
        },
        "load": record.machine["load"],
    }


def main() -> None:
    """Those that are named, in order."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help="which (default: all)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="a folder")
    parser.add_argument("--quick", action="store_true", help="a fraction of each, to see that it works")
    options = parser.parse_args()
    loads = Loads(options.out, quick=options.quick)
    known = {"notes": loads.notes, "reuse": loads.reuse, "shared": loads.shared, "transformers": loads.transformers}
    chosen = options.loads or list(known)
    if unknown := [name for name in chosen if name not in known]:
        parser.error(f"no load is called {', '.join(unknown)}; there are {', '.join(known)}")
    file = options.out / "cpu_loads.json"
    kept = Kept(file)
    if file.exists():
        kept.figures |= {name: part for name, part in json.loads(file.read_text()).items() if name in known}
    for name in chosen:
        say(f"== {name}")
        try:
            kept.put(name, known[name]())
        except TransformersMissing as error:
            kept.put(name, {"not_measured": str(error)})
        say(json.dumps(kept.figures[name], indent=2))


if __name__ == "__main__":
    main()
