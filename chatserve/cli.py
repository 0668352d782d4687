"""The command line: the only place that reads arguments and the environment.

Each command is a module of its own, loaded when it is asked for, so that a terminal client never waits for a server's
libraries, nor a server for torch.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
DEFAULT_URL = "http://127.0.0.1:8000"


def size(text: str) -> int:
    """Bytes: `512M`, `4G`, `1000000`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)(?:i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 512M or 4G")
    return int(float(match[1]) * UNITS[match[2].upper()])


def positive(text: str) -> int:
    """A whole number of at least one."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def natural(text: str) -> int:
    """A whole number of at least nothing."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def above_zero(text: str) -> float:
    """A number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def origin(text: str) -> str:
    """`https://chat.example`, with a port where it has one, or `*`."""
    if text != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]+", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no origin; write it in small letters and without a path, as https://chat.example, or as *"
        )
    return text


def priorities(text: str) -> tuple[int, int]:
    """`LOWEST:HIGHEST`."""
    match = re.fullmatch(r"(-?\d+):(-?\d+)", text)
    if match is None or int(match[1]) > int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no range; write it as -100:100")
    return int(match[1]), int(match[2])


def parser() -> argparse.ArgumentParser:
    """Every command and its options."""
    top = argparse.ArgumentParser(prog="chatserve", description=__doc__.splitlines()[0])
    commands = top.add_subparsers(dest="command", required=True)
    cache = Path(os.environ.get("CHATSERVE_CACHE", ".models"))
    key = os.environ.get("CHATSERVE_API_KEY") or None

    serve = commands.add_parser("serve", help="serve a model")
    serve.add_argument("model", nargs="?", default="demo", help="a folder, a .gguf file, a hub id, or demo (default)")
    serve.add_argument("--name", help="the name clients use (default: the model's own)")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8000)
    serve.add_argument("--device", default="auto", help="auto (default: a GPU where there is one), cpu, cuda, cuda:1")
    serve.add_argument("--dtype", choices=["float32", "bfloat16", "float16"], help="default: float32 on a CPU")
    serve.add_argument("--max-model-len", type=positive, help="tokens of context (default: the model's own)")
    serve.add_argument("--max-num-seqs", type=positive, help="requests in one step")
    serve.add_argument("--max-num-batched-tokens", type=positive, help="tokens in one step")
    serve.add_argument("--kv-limit", type=size, help="the most KV memory, as 4G (default: a share of what is free)")
    serve.add_argument("--kv-reserve", type=size, default=0, help="free KV memory kept when idle (default 0)")
    serve.add_argument("--kv-idle-ttl", type=float, help="seconds an unused prefix is kept (default: until pressure)")
    serve.add_argument("--priorities", type=priorities, default=(-100, 100), help="allowed range (default -100:100)")
    serve.add_argument(
        "--sessions",
        default=os.environ.get("CHATSERVE_SESSIONS", ".chatserve/sessions.sqlite3"),
        help="where conversations are kept: a file, sqlite:///file, redis://[:password@]host:port/db, rediss://... "
        "(default: $CHATSERVE_SESSIONS, or .chatserve/sessions.sqlite3)",
    )
    serve.add_argument("--history-ttl", type=float, default=86400.0, help="seconds a stateless chat can be continued")
    serve.add_argument("--drain", type=float, default=30.0, help="seconds running answers get after SIGTERM")
    add_edge(serve.add_argument_group("who may ask, and how much"))
    serve.add_argument("--workers", type=positive, default=1, help="processes that talk to clients (default 1)")
    serve.add_argument("--random-weights", action="store_true", help="draw weights for a folder with a config only")
    serve.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    serve.set_defaults(cache=cache, api_key=key)

    chat = commands.add_parser("chat", help="talk to a running server")
    chat.add_argument("--url", default=DEFAULT_URL)
    chat.add_argument("--model", help="default: the server's")
    chat.add_argument(
        "--api-key", default=key, help="where the server asks for one (better: CHATSERVE_API_KEY in the environment)"
    )

    add_bench(
        commands.add_parser("bench", help="measure how fast a server answers: ours, or any OpenAI-compatible one"), key
    )
    add_bench_report(
        commands.add_parser(
            "bench-report", prog="chatserve bench report", help="or `bench report`: make a page of what was measured"
        )
    )

    demo = commands.add_parser("demo", help="fetch the demo model")
    demo.set_defaults(cache=cache)
    return top


def add_edge(group: argparse._ArgumentGroup) -> None:
    """What stands between the network and a server."""
    group.add_argument(
        "--api-keys",
        type=Path,
        metavar="FILE",
        help="lines of NAME:SECRET, then any of: admin requests=N tokens=N; read again on SIGHUP. Without it, the "
        "secret in CHATSERVE_API_KEY is the one key, an admin's; without either, nobody is asked",
    )
    group.add_argument("--share-prefixes", action="store_true", help="keys may reuse each other's computed prefixes")
    group.add_argument("--public-metrics", action="store_true", help="/metrics takes no key")
    group.add_argument(
        "--cors-origin",
        type=origin,
        action="append",
        default=[],
        metavar="ORIGIN",
        help="an origin whose pages may read answers, as https://chat.example or * (repeat it; default: none)",
    )
    group.add_argument("--requests-per-minute", type=positive, metavar="N", help="for each key (default: no limit)")
    group.add_argument(
        "--tokens-per-minute", type=positive, metavar="N", help="computed tokens, for each key (default: no limit)"
    )
    group.add_argument("--max-body", type=size, default=2 << 20, metavar="SIZE", help="of a request (default 2M)")
    group.add_argument("--max-messages", type=positive, default=4096, metavar="N", help="in a request (default 4096)")
    group.add_argument(
        "--max-text", type=positive, default=1_000_000, metavar="N", help="characters in a request (default 1000000)"
    )


def add_bench(bench: argparse.ArgumentParser, key: str | None) -> None:
    """Who is measured, under what load, and what becomes of the figures."""
    bench.add_argument("url", nargs="?", default=DEFAULT_URL, help=f"with or without /v1 (default {DEFAULT_URL})")
    bench.add_argument("--model", help="default: the first that the server names")
    bench.add_argument("--api-key", default=key, help="of URL's server (better: CHATSERVE_API_KEY in the environment)")
    bench.add_argument("--compare", metavar="URL2", help="measure another server in turn with it: A B, B A, ...")
    bench.add_argument("--rounds", type=positive, help="of a comparison, each with a seed of its own (default 2)")
    bench.add_argument("--compare-model", metavar="MODEL", help="of the other server")
    bench.add_argument("--compare-api-key", metavar="KEY", help="of the other server, which never gets the first's")
    bench.add_argument("--extra-body", metavar="JSON", help="an object of further fields of every request")
    bench.add_argument("--compare-extra-body", metavar="JSON", help="of the other server (default: the same)")
    bench.add_argument(
        "--stateful",
        action="store_true",
        help="/v1/responses, with conversations that the server keeps (default: /v1/chat/completions, and the whole "
        "history with every turn)",
    )
    bench.add_argument("--timeout", type=above_zero, default=300.0, help="seconds that a turn may take (default 300)")
    add_bench_load(bench.add_argument_group("how much is asked for"))
    add_bench_talk(bench.add_argument_group("what is said (MEAN:SPREAD is anything from MEAN-SPREAD to MEAN+SPREAD)"))
    bench.add_argument("--slo", metavar="LIMITS", help="counts the turns that meet them: ttft=500ms,tpot=50ms,e2e=10s")
    bench.add_argument("--json", type=Path, metavar="FILE", help="keep every turn, and all figures")
    bench.add_argument("--plots", type=Path, metavar="DIR", help="draw distributions and the run over time")


def add_bench_load(group: argparse._ArgumentGroup) -> None:
    """How many users, how fast they come, and for how long."""
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--concurrency", type=positive, default=8, help="closed loop: so many conversations (default 8)")
    kind.add_argument("--rate", type=above_zero, help="open loop: so many conversations begin each second, at random")
    group.add_argument("--conversations", type=positive, help="in all (default: 4 for each of --concurrency)")
    group.add_argument("--seconds", type=above_zero, help="no turn is sent after so many (default with --rate: 30)")
    group.add_argument(
        "--warm-up", type=float, default=0.0, metavar="SECONDS", help="turns sent before are not counted"
    )
    group.add_argument("--processes", type=positive, default=1, help="of the client (default 1)")
    group.add_argument(
        "--seed",
        type=int,
        help="of all texts and arrivals (default: a new one, for a server remembers what it has seen)",
    )


def add_bench_talk(group: argparse._ArgumentGroup) -> None:
    """The shape of conversations."""
    group.add_argument("--turns", default="4", metavar="MEAN:SPREAD", help="of a conversation (default 4)")
    group.add_argument(
        "--system", type=natural, default=200, metavar="WORDS", help="system prompt; 0: none (default 200)"
    )
    group.add_argument(
        "--system-shared", type=natural, default=0, metavar="N", help="by N conversations (default: by all)"
    )
    group.add_argument("--first", default="100", metavar="MEAN:SPREAD", help="words of the first message (default 100)")
    group.add_argument("--later", default="40", metavar="MEAN:SPREAD", help="words of later messages (default 40)")
    group.add_argument("--answer", default="64", metavar="MEAN:SPREAD", help="tokens of an answer (default 64)")
    group.add_argument(
        "--natural-ends",
        action="store_true",
        help="answers may end before; for servers that do not know ignore_eos (default: exactly as long as asked)",
    )
    group.add_argument("--think", default="0", metavar="MEDIAN:SIGMA", help="seconds before a later turn (default 0)")
    group.add_argument("--branch-rate", type=float, default=0.0, help="of later turns: they replace the last exchange")
    group.add_argument("--cancel-rate", type=float, default=0.0, help="of turns: their reader leaves in the middle")
    group.add_argument("--priorities", default="0", metavar="P=WEIGHT,...", help="of conversations (default: all 0)")
    group.add_argument("--texts", type=Path, metavar="FILE", help="users' messages from ShareGPT-style JSON")


def add_bench_report(report: argparse.ArgumentParser) -> None:
    """What to read, and where the page goes."""
    report.add_argument("files", type=Path, nargs="+", help="JSON files of `chatserve bench` or `make bench`")
    report.add_argument("--out", type=Path, default=Path("report.html"), help="the page (default report.html)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:2] == ["bench", "report"]:  # what stands after `bench` is a URL otherwise
        given[:2] = ["bench-report"]
    options = vars(parser().parse_args(given))
    # Texts are encoded one by one: the threads that the tokenizers' library wakes for each have nothing to do.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    command = import_module(f"chatserve.commands.{options.pop('command').replace('-', '_')}")
    try:
        status: int = command.run(**options)
    except KeyboardInterrupt:
        return 130
    sys.stdout.flush()
    return status
