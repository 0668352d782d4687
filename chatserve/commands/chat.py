"""`chatserve chat`."""

from __future__ import annotations

import asyncio
import sys

from chatserve.terminal.client import chat


def run(*, url: str, model: str | None, api_key: str | None) -> int:
    """A conversation with a running server; the exit status."""
    interactive = sys.stdin.isatty()
    return asyncio.run(chat(url, model, api_key, source=sys.stdin, screen=sys.stdout, interactive=interactive))
