"""A record in words: the same rows for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from chatserve.bench.load import Limits
from chatserve.bench.record import COMPARED, Record, RunRecord, Server
from chatserve.bench.statistics import Interval
from chatserve.bench.summary import LATENCY_NAMES, Quantiles, Summary

BUSY: Final = 0.8
LATE: Final = 0.01
FEW: Final = 100


@dataclass(frozen=True, slots=True)
class Table:
    """The first column names the row, the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def tables(record: Record) -> Iterator[Table]:
    """Latencies and rates of each server, failures where there were any, then how the two compare."""
    for place, (server, summary) in enumerate(zip(record.servers, record.summaries, strict=True)):
        name = f"{_letter(place)}: " if len(record.servers) > 1 else ""
        yield Table(
            f"{name}{described(server)}",
            ["ms", "p50", "p90", "p99", "mean", "most", "n"],
            [latency_row(LATENCY_NAMES[each], found) for each, found in summary.latencies.items()],
        )
        yield Table(f"{name}rates and shares", ["", "figure"], list(rate_rows(summary)))
        if summary.failures:
            rows = [
                [kind, f"{count:,}", _example(record.runs, place, kind)] for kind, count in summary.failures.items()
            ]
            yield Table(f"{name}failures", ["kind", "turns", "for example"], rows)
    if record.ratios is not None:
        yield comparison(record.summaries, record.ratios)


def described(server: Server) -> str:
    extra = f", {msgspec.json.encode(server.extra).decode()}" if server.extra else ""
    return f"{server.url}, {server.model}, {server.api}{extra}"


def latency_row(name: str, found: Quantiles) -> list[str]:
    figures = (found.p50, found.p90, found.p99, found.mean, found.most)
    return [name, *map(milliseconds, figures), f"{found.count:,}"]


def rate_rows(summary: Summary) -> Iterator[tuple[str, str]]:
    """Those that there is something to say of."""
    yield "whole answers", f"{summary.turns:,}"
    yield "failed", f"{summary.failed:,}"
    if summary.cancelled:
        yield "cancelled by the client", f"{summary.cancelled:,}"
    if summary.warm:
        yield "while warming up, not counted", f"{summary.warm:,}"
    yield "over", f"{summary.wall:.1f} s"
    yield "turns/s", f"{summary.turns_rate:.2f}"
    yield "output tokens/s", f"{summary.output_rate:,.1f}"
    yield "output tokens/s, steady", f"{summary.steady_output_rate:,.1f}"
    yield "prompt tokens/s", f"{summary.input_rate:,.1f}"
    if summary.tokens_per_event is not None:
        yield "tokens per event", f"{summary.tokens_per_event:.2f}"
    yield "cached share", "the server does not say" if summary.cached_share is None else f"{summary.cached_share:.1%}"
    if summary.goodput is not None and summary.good_share is not None:
        yield "goodput", f"{summary.goodput:.2f} turns/s, {summary.good_share:.1%} of those asked"
    if summary.late is not None:
        yield "sent after it was due, p99", f"{milliseconds(summary.late.p99)} ms"


def comparison(summaries: Sequence[Summary], ratios: Mapping[str, Interval]) -> Table:
    first, second = summaries
    rows = []
    for name in COMPARED:
        if name in ratios and name in first.latencies and name in second.latencies:
            ratio, medians = ratios[name], (first.latencies[name].p50, second.latencies[name].p50)
            told = "" if ratio.sure else "not told apart"
            shown = f"{ratio.ratio:.3f}  [{ratio.low:.3f}, {ratio.high:.3f}]"
            rows.append([f"{LATENCY_NAMES[name]}, p50 ms", *map(milliseconds, medians), shown, told])
    for label, ours, theirs in (
        ("output tokens/s", first.output_rate, second.output_rate),
        ("output tokens/s, steady", first.steady_output_rate, second.steady_output_rate),
        ("turns/s", first.turns_rate, second.turns_rate),
    ):
        rows.append([label, f"{ours:,.1f}", f"{theirs:,.1f}", f"{theirs / ours:.3f}" if ours else "", ""])
    return Table("B against A", ["", "A", "B", "B / A  [95 % of repetitions]", ""], rows)


def remarks(record: Record) -> Iterator[str]:
    """What a reader must know before believing the figures."""
    urls = [server.url for server in record.servers]
    if len(set(urls)) < len(urls) and not all("cache_salt" in server.extra for server in record.servers):
        yield (
            "A and B are one server, and it remembers what it was sent as A when it is asked the same as B: give each "
            'a {"cache_salt": ...} of its own with --extra-body and --compare-extra-body.'
        )
    for run in record.runs:
        where = f"{record.servers[run.server].url}: " if len(record.servers) > 1 else ""
        if run.interrupted:
            yield f"{where}stopped early: these are the turns that had ended by then."
        if run.hopeless is not None:
            yield f"{where}given up, for every turn failed: {run.hopeless.kind}: {run.hopeless.told}"
        if run.client.busiest > BUSY or run.client.lag > LATE:
            yield (
                f"{where}the client itself was late: its events waited up to {1e3 * run.client.lag:.0f} ms (p99), its "
                f"busiest process took {run.client.busiest:.0%} of a core. Near 100 %, use more --processes; else this "
                "machine is too busy to measure on."
            )
    for summary in record.summaries:
        if summary.without_text:
            yield f"{summary.without_text:,} whole answers had no text; they are in no TTFT."
        if any(found.count < FEW for name, found in summary.latencies.items() if name.startswith("ttft")):
            yield f"a p99 of fewer than {FEW} values says little: it is about the worst of them."
            return


def client_line(runs: Sequence[RunRecord]) -> str:
    """What the measuring itself took."""
    cpu, wall = sum(run.client.cpu for run in runs), sum(run.client.wall for run in runs)
    lag = max((run.client.lag for run in runs), default=0.0)
    share = f"{cpu / wall:.2f} of a core" if wall else "nothing"
    return f"client: {share} on average, its events at most {1e3 * lag:.1f} ms late (p99)"


def terms_lines(record: Record) -> Iterator[str]:
    """What was asked for."""
    terms, load = record.terms, record.terms.workload
    yield f"{terms.load}; {limits_line(terms.limits)}; seed {load.seed}"
    length = "exactly" if terms.fixed_length else "at most"
    yield (
        f"{load.turns} turns a conversation, a system prompt of {load.system} words, first message {load.first}, later "
        f"{load.later} words ({terms.texts}), answers of {length} {load.answer} tokens"
    )
    users = [
        f"{load.think} s of thought" if load.think.median else "no thinking",
        f"{load.branch_rate:.0%} branches",
        f"{load.cancel_rate:.0%} cancelled",
        f"{terms.processes} client process{'es' * (terms.processes != 1)}",
    ]
    users += [f"{load.warm_up:g} s of warming up"] if load.warm_up else []
    yield ", ".join(users) + (f"; limits: {terms.slo}" if terms.slo else "")


def limits_line(limits: Limits) -> str:
    """When it ends."""
    told = [] if limits.conversations is None else [f"{limits.conversations:,} conversations in all"]
    told += [] if limits.seconds is None else [f"no turn sent after {limits.seconds:g} s"]
    return ", ".join(told) or "until it is stopped"


def milliseconds(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _example(runs: Sequence[RunRecord], server: int, kind: str) -> str:
    failures = (turn.failure for run in runs if run.server == server for turn in run.turns if turn.failure)
    return next((failure.told for failure in failures if failure.kind == kind), "")


def _letter(place: int) -> str:
    return "AB"[place]
