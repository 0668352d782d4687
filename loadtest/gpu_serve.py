"""The server on a GPU, as its users meet it: how soon it is ready, what it leaves to others, and how it keeps up.

    python -m loadtest.gpu_serve .models/llama-8b-shape

Random weights for a folder with a config and a tokenizer only; the load is that of loadtest.multi_turn. Beside our
figures stand vLLM's, which were measured earlier on the same kind of machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadtest import vllm_figures
from loadtest.gpu_outside import DeviceMemory, memory_reader
from loadtest.kept import RESULTS, Kept, say, until
from loadtest.markdown import table
from loadtest.server import Server, free_port, running

GIVEN_BACK_WITHIN = 5.0
SETTLED = 64 << 20
"""Bytes: a difference that other programs on the device may make."""
SUITE = "W,W2,A,B,C,D,E,notes"
QUICK_SUITE = "S,A,B"
LOAD_SECONDS = 150.0
Reader = Callable[[], DeviceMemory]


def main() -> int:
    """Start, look at idle memory, load, look again; the exit status."""
    options = arguments()
    kept, reader = Kept(options.out), memory_reader()
    port = free_port()
    weights = [] if options.stored_weights else ["--random-weights"]
    flags = [*weights, "--workers", str(options.workers), *options.serve]
    say(f"starting the server: {' '.join(flags)}")
    before = reader() if reader else None
    began = time.monotonic()
    with running(port, str(options.model), *flags) as server:
        ready = time.monotonic() - began
        say(f"ready after {ready:.1f} s")
        kept.put("start", {"ready_s": round(ready, 2), "flags": flags, "vllm_ready_s": vllm_figures.READY_SECONDS})
        kept.put("idle", idle_memory(server, reader, before))
        loaded = run_loads(server, options, kept)
        kept.put("flushed_after_load", flush(server, reader))
        kept.put("engine_at_the_end", server.stats())
    page = markdown(kept.figures)
    options.out.with_suffix(".md").write_text(page)
    print(page, flush=True)
    return loaded


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a folder with config.json and a tokenizer")
    parser.add_argument("--suite", help=f"scenarios of loadtest.multi_turn (default {SUITE})")
    parser.add_argument("--quick", action="store_true", help=f"only {QUICK_SUITE}")
    parser.add_argument("--workers", type=int, default=4, help="processes of the server that talk to clients")
    parser.add_argument("--seeds", default="1,2,3", help="the load is run once with each; the median is kept")
    parser.add_argument("--seconds", type=float, default=LOAD_SECONDS, help="each load is cut off after so many")
    parser.add_argument("--stored-weights", action="store_true", help="the folder has weights; read them")
    parser.add_argument("--serve", nargs=argparse.REMAINDER, default=[], help="flags of `chatserve serve`, last")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_serve.json")
    return parser.parse_args()


def idle_memory(server: Server, reader: Reader | None, before: DeviceMemory | None) -> dict[str, Any]:
    """With the model loaded, nothing recorded, nothing running."""
    found = flush(server, reader)
    if before is not None:
        found["free_share_before_start"] = before.free_share
    return found | {"vllm_free_share": round(vllm_figures.FREE_SHARE, 4)}


def flush(server: Server, reader: Reader | None) -> dict[str, Any]:
    """Forget every prefix, then see how soon the device's memory stops coming back, and how much of it is free."""
    held = server.stats()["physical_bytes"]
    server.http.post("/admin/flush").raise_for_status()
    began = time.monotonic()
    gone = until(lambda: server.stats()["physical_bytes"] == 0, GIVEN_BACK_WITHIN)
    found: dict[str, Any] = {
        "kv_bytes_before_flush": held,
        "kv_bytes_after_flush": server.stats()["physical_bytes"],
        "given_back_after_s": round(time.monotonic() - began, 3) if gone else None,
    }
    if reader is not None:
        free = reader().free
        until(lambda: abs(reader().free - free) < SETTLED, 1.0)
        now = reader()
        found |= {"free_bytes": now.free, "total_bytes": now.total, "free_share": now.free_share}
        say(f"free with the model loaded, idle and flushed: {now.free_share:.1%}")
    return found


def run_loads(server: Server, options: argparse.Namespace, kept: Kept) -> int:
    """The load with each seed, other words each time; 1 if any failed."""
    loads, failed = [], False
    for seed in options.seeds.split(","):
        load, status = run_load(server, options, seed)
        failed |= status != 0
        loads.append(load)
        kept.put("load", medians(loads))
    return int(failed)


def run_load(server: Server, options: argparse.Namespace, seed: str) -> tuple[dict[str, Any], int]:
    """The client in a process of its own, which keeps its figures after each scenario; those, and its exit status."""
    out = options.out.with_suffix(".load.json")
    out.unlink(missing_ok=True)
    suite = options.suite or (QUICK_SUITE if options.quick else SUITE)
    command = [sys.executable, "-u", "-m", "loadtest.multi_turn", "--url", server.url, "--suite", suite]
    say(f"load: {suite}, seed {seed}")
    try:
        status = subprocess.run(
            [*command, "--seed", seed, "--out", str(out)], timeout=options.seconds, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        say(f"the load was cut off after {options.seconds:g} s")
        status = 1
    load = json.loads(out.read_text()) if out.exists() else {}
    out.unlink(missing_ok=True)
    return {name: figures for name, figures in load.items() if name != "machine"}, status


def medians(loads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of each scenario the round of median throughput, whole; beside it the throughput of every round, and errors and
    failures of all.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for load in loads for name in load):
        rounds = sorted((load[name] for load in loads if name in load), key=lambda each: each.get("out_tok_s", 0.0))
        found[name] = rounds[(len(rounds) - 1) // 2] | {
            "rounds_out_tok_s": [each.get("out_tok_s", 0.0) for each in rounds],
            "errors": sum(each["errors"] for each in rounds),
            "failures": [failure for each in rounds for failure in each["failures"]],
        }
    return found


def markdown(figures: dict[str, Any]) -> str:
    """The scenarios beside vLLM's figures, then the notes' table."""
    load: dict[str, Any] = figures["load"]
    counted = [beside_vllm(load[name]) for name in load if name in vllm_figures.SCENARIOS and "wall_s" in load[name]]
    notes = [as_in_the_notes(load[name]) for name in load if name in vllm_figures.NOTES and "wall_s" in load[name]]
    start, idle = figures["start"], figures["idle"]
    lines = [
        f"Ready after {start['ready_s']} s (vLLM: {start['vllm_ready_s'][0]}–{start['vllm_ready_s'][1]} s). "
        f"Free memory, idle and flushed: {idle.get('free_share')} (vLLM: {idle['vllm_free_share']}).",
        f"vLLM's figures: {vllm_figures.SOURCE}.",
        table(counted) if counted else "",
        table(notes) if notes else "",
    ]
    return "\n\n".join(line for line in lines if line)


def beside_vllm(ours: dict[str, Any]) -> dict[str, Any]:
    """One row: ours, theirs, what is aimed at."""
    theirs = vllm_figures.SCENARIOS[ours["scenario"]]
    later, rate = ours["ttft_later_ms"][0], ours["out_tok_s"]
    return {
        "scenario": ours["scenario"],
        "tok/s": rate,
        "vLLM tok/s": theirs.out_tok_s,
        "ratio": round(rate / theirs.out_tok_s, 3),
        "rounds": " / ".join(f"{each:,.0f}" for each in ours.get("rounds_out_tok_s", [])),
        "of the floor": round(rate / theirs.floor_tok_s, 3),
        "wanted": theirs.wanted_tok_s,
        "later TTFT p50 ms": later,
        "vLLM's": theirs.ttft_later_ms,
        "at most": theirs.wanted_ttft_later_ms,
        "TPOT p50 ms": ours["tpot_ms"][0],
        "vLLM TPOT": theirs.tpot_ms,
        "reused": ours["cached_share"],
        "stalls": int(ours["server"].get("chatserve:stalls_total", 0)),
        "errors": ours["errors"],
        "met": rate >= theirs.wanted_tok_s and later is not None and later <= theirs.wanted_ttft_later_ms,
    }


def as_in_the_notes(ours: dict[str, Any]) -> dict[str, Any]:
    return {
        "concurrency": ours["clients"],
        "req/s": ours["req_s"],
        "tok/s": ours["out_tok_s"],
        "mean TTFT ms": ours["ttft_mean_ms"],
        "mean TPOT ms": ours["tpot_mean_ms"],
        "mean total ms": ours["e2e_mean_ms"],
        "all requests s": ours["wall_s"],
    }


if __name__ == "__main__":
    sys.exit(main())
