"""A server's parts with the page among them, put together as a real one's are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp

from chatserve.page.page import Page
from chatserve.page.policy import Policy
from chatserve.page.relay import Relay
from chatserve.page.rooms import Rooms
from chatserve.server.app import create_app
from chatserve.text.prompt import ChatPrompt
from chatserve.text.tokenizer import Tokenizer
from sessions.manager import SessionManager
from sessions.sqlite import SqliteStore
from tests.server.running_server import MODEL, Parts
from tests.server.scripted import ScriptedEngine


@dataclass
class PageParts(Parts):
    relay: Relay = field(default_factory=lambda: Relay(Rooms()))

    def app(self) -> ASGIApp:
        sessions = SessionManager(self.store)
        page = Page(
            self.engine,
            sessions,
            self.running,
            self.live,
            self.edge.meters,
            self.relay,
            model=MODEL,
            limits=self.limits,
            needs_key=self.edge.keys is not None,
        )
        self.made = create_app(
            self.engine,
            self.tokenizer,
            self.prompt,
            sessions,
            self.running,
            model_name=MODEL,
            limits=self.limits,
            live=self.live,
            extra=page.routes,
        )
        return replace(self.edge, public=self.edge.public | page.public).around(Policy(self.made))

    def routes(self) -> Starlette:
        self.app()
        return self.made


async def open_page_parts(folder: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> PageParts:
    return PageParts(engine, tokenizer, ChatPrompt(tokenizer), await SqliteStore.open(folder / "sessions.db"))
