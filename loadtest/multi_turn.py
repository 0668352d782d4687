"""Closed-loop multi-turn chat against any OpenAI-compatible server.

    python -m loadtest.multi_turn --url http://127.0.0.1:8000 --suite W,W2,A,B,C,D,E --seed 1 --out load.json

The scenarios are in scenarios.py; `notes` stands for single questions of 64 tokens out at concurrency 1 and 8. A stream
that brings an error, no [DONE], no usage or not the tokens it was asked for is a failure; any failure is exit status 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import msgspec

from chatserve.bench.crew import Performance, perform_all
from chatserve.bench.load import Closed, Limits
from chatserve.bench.playing import Run
from chatserve.bench.talks import Manner
from chatserve.bench.target import Target
from chatserve.bench.user import Service
from loadtest.kept import Kept
from loadtest.load_figures import COLUMNS, figures, line, ttft
from loadtest.scenarios import SCENARIOS, Scripted, chosen

METRICS = ("chatserve:", "vllm:")
SETTLE_SECONDS = 0.3
"""Until what happened last is in the server's counters."""


def fetch(url: str) -> str | None:
    """A page of the server; None where there is no such page."""
    try:
        with urllib.request.urlopen(url, timeout=10) as page:
            return str(page.read().decode())
    except (urllib.error.URLError, TimeoutError):
        return None


def counters(url: str) -> dict[str, float]:
    """The engine's counters and gauges on /metrics, summed over labels; histograms by their sum and count."""
    found: dict[str, float] = {}
    for row in (fetch(f"{url}/metrics") or "").splitlines():
        if row.startswith(METRICS) and "_bucket{" not in row and "_created" not in row:
            series, _, value = row.rpartition(" ")
            name = series.partition("{")[0]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def served_model(url: str) -> str:
    """The first model that the server names. Raises SystemExit when it does not answer."""
    page = fetch(f"{url}/v1/models")
    if page is None:
        raise SystemExit(f"{url}/v1/models does not answer; is the server up? --model names one without asking")
    return str(json.loads(page)["data"][0]["id"])


def send(service: Service, name: str, seed: str) -> Performance:
    """All conversations of scenario `name`, each client one after another."""
    scenario = SCENARIOS[name]
    run = Run(service, Scripted(name, seed), Closed(scenario.clients), Limits(scenario.conversations), seed=0)
    return perform_all(run, scenario.processes, lambda _: None)


def each_turn(done: Performance) -> list[dict[str, Any]]:
    """Every fact of every whole turn."""
    return [{**msgspec.to_builtins(turn), "ttft": ttft(turn), "e2e": turn.e2e} for turn in done.outcomes if turn.whole]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="default: the first that the server names")
    parser.add_argument("--suite", default="A,B,C,D,E", help="scenarios, separated by commas; or notes")
    parser.add_argument("--seed", default="1", help="of the words that are said")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds that one turn may take")
    parser.add_argument("--out", type=Path, help="a JSON file, written after each scenario")
    parser.add_argument("--turns", action="store_true", help="keep every single turn in it too")
    return parser.parse_args()


def main() -> int:
    """The suite in order; the exit status."""
    options = arguments()
    url = options.url.rstrip("/")
    service = Service(Target.parse(url), Manner(options.model or served_model(url)), timeout=options.timeout)
    kept = Kept(options.out) if options.out else None
    failures = 0
    print(COLUMNS, flush=True)
    for name in chosen(options.suite):
        before = counters(url)
        done = send(service, name, options.seed)
        time.sleep(SETTLE_SECONDS)
        after = counters(url)
        shown = figures(name, done)
        shown["server"] = {
            each: round(value - before.get(each, 0.0), 6)
            for each, value in after.items()
            if value != before.get(each, 0.0)
        }
        print(line(shown), flush=True)
        for failure in shown["failures"][:1]:
            print(f"    {failure}", flush=True)
        failures += shown["errors"]
        if options.turns:
            shown["each_turn"] = each_turn(done)
        if kept:
            kept.put(name, shown)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
