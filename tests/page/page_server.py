"""A server's parts with the page among them, put together as a real one's are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp

from chatserve.page.page import Page
from chatserve.page.policy import Policy
from chatserve.server.app import create_app
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from tests.server.running_server import MODEL, Parts
from tests.server.scripted import ScriptedEngine


@dataclass
class PageParts(Parts):
    def app(self) -> ASGIApp:
        page = self._page()
        return replace(self.edge, public=self.edge.public | page.public).around(Policy(self.routes()))

    def routes(self) -> Starlette:
        return create_app(
            self.engine,
            self.tokenizer,
            self.prompt,
            SessionManager(self.store),
            self.running,
            model_name=MODEL,
            limits=self.limits,
            extra=self._page().routes,
        )

    def _page(self) -> Page:
        keyed = self.edge.keys is not None
        return Page(self.engine, model=MODEL, limits=self.limits, needs_key=keyed)


async def open_page_parts(folder: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> PageParts:
    return PageParts(engine, tokenizer, ChatPrompt(tokenizer), await SqliteStore.open(folder / "sessions.db"))
