"""The joined figures as one Markdown page: what was aimed at and what came, then every part's tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtest import vllm_figures
from loadtest.gpu_serve import markdown as serve_page
from loadtest.markdown import cell, table

LEAST_FREE = 0.85
MOST_READY = 25.0
MOST_ROUNDING = 0.06
MOST_TAKEOVER = 1.1
MOST_BRANCH_MS = 8.0


@dataclass(frozen=True, slots=True)
class Aim:
    """One target. upward: whether more is better."""

    what: str
    measured: float
    wanted: float
    upward: bool = False

    def row(self) -> dict[str, Any]:
        met = self.measured >= self.wanted if self.upward else self.measured <= self.wanted
        bound = "at least" if self.upward else "at most"
        return {
            "aim": self.what,
            "measured": self.measured,
            "wanted": f"{bound} {cell(self.wanted)}",
            "measured / wanted": round(self.measured / self.wanted, 3) if self.wanted else None,
            "met": met,
        }


def page(figures: Mapping[str, Any]) -> str:
    """Of whatever parts there are."""
    machine = figures["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [f"# On {machine['gpu'] or 'no GPU'}", f"{versions}, Python {machine['python']}, {machine['cpus']} cores."]
    commits = ", ".join(f"{name} {commit}" for name, commit in figures.get("commits", {}).items())
    lines += [f"Of commits: {commits}."] if commits else []
    aims = [aim.row() for aim in aims_of(figures)]
    if aims:
        lines += ["## Aims", table(aims)]
    for name, part in figures.items():
        if name not in ("machine", "commits"):
            lines += [f"## {name}", *section(name, part)]
    return "\n\n".join(lines) + "\n"


def section(name: str, part: Mapping[str, Any]) -> Iterator[str]:
    """One part: its rows as tables, its single figures as a table of one row; the server has a page of its own."""
    if "error" in part:
        yield "This part failed:\n\n```\n" + str(part["error"]) + "\n```"
    if name == "serve" and "load" in part and "idle" in part:
        yield serve_page(dict(part))
        return
    for title, figures in part.items():
        if isinstance(figures, list) and figures and isinstance(figures[0], dict):
            yield f"### {title}"
            yield table(figures)
        elif isinstance(figures, dict):
            yield f"### {title}"
            yield table([{key: value for key, value in figures.items() if not isinstance(value, dict)}])


def aims_of(figures: Mapping[str, Any]) -> Iterator[Aim]:
    """Each target whose figure was measured."""
    serve, turn = figures.get("serve", {}), figures.get("turn", {})
    for name, load in serve.get("load", {}).items():
        wanted = vllm_figures.SCENARIOS.get(name)
        if wanted and "out_tok_s" in load:
            yield Aim(f"scenario {name}, output tokens/s", load["out_tok_s"], wanted.wanted_tok_s, upward=True)
            if load["ttft_later_ms"][0] is not None:
                later = load["ttft_later_ms"][0]
                yield Aim(f"scenario {name}, later turns' TTFT p50, ms", later, wanted.wanted_ttft_later_ms)
    for row in [*rows(figures, "decode"), *rows(figures, "prefill")]:
        yield from _kernel_aims(row)
    for row in rows(figures, "step"):
        if row.get("graph_at_most"):
            yield Aim(f"bare graph / floor, B = {row['sequences']}", row["graph_over_floor"], row["graph_at_most"])
            yield Aim(f"engine / bare graph, B = {row['sequences']}", row["engine_over_graph"], row["engine_at_most"])
    for row in turn.get("alone", ())[-1:]:
        yield Aim(f"takeover after {row['history']:,} / same step", row["takeover_over_same_step"], MOST_TAKEOVER)
        yield Aim(f"branch after {row['history']:,}, ms more", row["branch_more_ms"], MOST_BRANCH_MS)
    for part, when in (("idle", "after the start"), ("flushed_after_load", "after the load")):
        free = serve.get(part, {}).get("free_share")
        if free is not None:
            yield Aim(f"free memory, model loaded, idle and flushed, {when}", free, LEAST_FREE, upward=True)
    if "ready_s" in serve.get("start", {}):
        yield Aim("start to ready, s", serve["start"]["ready_s"], MOST_READY)
    for name in ("unequal", "in step"):
        if name in figures.get("rounding", {}):
            yield Aim(f"stalls, 64 sequences of 4K, {name}", figures["rounding"][name]["stalls"], 0)
    unequal = figures.get("rounding", {}).get("unequal", {})
    if "rounding_loss_mean" in unequal:
        yield Aim("rounding loss, 64 sequences of 4K", unequal["rounding_loss_mean"], MOST_ROUNDING)


def _kernel_aims(row: Mapping[str, Any]) -> Iterator[Aim]:
    """Of one row of an attention table."""
    if "kv_heads" in row:
        what, ours = f"decode {row['batch']} × {row['context']}, {row['kv_heads']} KV heads, µs", "split_slots_us"
    else:
        what, ours = f"prefill {row['batch']}, {row['prefix']:,} + {row['new']:,}, µs", "fa3_slots_us"
    if ours in row and row.get("at_most_us"):
        yield Aim(what, row[ours], row["at_most_us"])
    if "fa3_slots_tflops" in row and row.get("at_least_tflops"):
        yield Aim(what.replace("µs", "TFLOP/s"), row["fa3_slots_tflops"], row["at_least_tflops"], upward=True)


def rows(figures: Mapping[str, Any], part: str) -> Sequence[Mapping[str, Any]]:
    """All rows of a part's tables."""
    return [row for table_ in figures.get(part, {}).values() if isinstance(table_, list) for row in table_]
