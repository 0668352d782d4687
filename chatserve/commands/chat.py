"""`chatserve chat`."""

from __future__ import annotations

import asyncio
import sys

from chatserve.terminal.client import chat


def run(*, url: str, model: str | None) -> int:
    """A conversation with a running server; the exit status."""
    return asyncio.run(chat(url, model, source=sys.stdin, screen=sys.stdout, interactive=sys.stdin.isatty()))
