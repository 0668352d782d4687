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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    options = vars(parser().parse_args(arguments))
    command = import_module(f"chatserve.commands.{options.pop('command')}")
    try:
        status: int = command.run(**options)
    except KeyboardInterrupt:
        return 130
    sys.stdout.flush()
    return status
