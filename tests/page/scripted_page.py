"""The page's routes around a script: answers whose pace, words and faults a test decides. No model, no store.

What a message says decides its answer: see `ScriptedPage.answers`. Everything travels exactly as from the real server.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from chatserve.page.markdown import render
from loadtest.server import free_port

WEB = Path(__file__).parents[2] / "web"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)

Json = dict[str, Any]


@dataclass
class Script:
    """An answer. pace: seconds before each piece. fails: an error in place of the rest, after the pieces."""

    pieces: list[str]
    pace: float = 0.0
    fails: Json | None = None
    hold: threading.Event | None = None


@dataclass
class Talk:
    id: str
    title: str | None
    turns: list[Json] = field(default_factory=list)
    leaf: str | None = None
    running: Json | None = None
    used_at: float = 0.0
    listeners: set[asyncio.Queue[Json | None]] = field(default_factory=set)
    stop: bool = False
    killed: bool = False
    written: str = ""
    tokens: int = 0

    def tell(self, event: Json | None) -> None:
        for listener in self.listeners:
            listener.put_nowait(event)


def shown(text: str) -> Json:
    rendered = render(text)
    return {"thinking_html": rendered.thinking, "blocks": list(rendered.blocks)}


def message(role: str, text: str) -> Json:
    return {"role": role, "text": text, "html": None if role == "user" else "".join(render(text).blocks)}


class ScriptedPage:
    """answers: what a message is answered with.  memory: what is said of the memory.  key: which one is asked for."""

    def __init__(self, answers: Callable[[str], Script]) -> None:
        self.answers = answers
        self.key: str | None = None
        self.talks: dict[str, Talk] = {}
        self.memory: Json | None = None
        self.asked: list[tuple[str, str, Json]] = []
        self.refuse_next: list[tuple[int, Json]] = []
        self.late_tree: threading.Event | None = None
        self.drop = threading.Event()
        self.away = False
        self.ids = itertools.count(1)
        self.url = ""

    def add(self, title: str | None, turns: list[Json] | None = None) -> Talk:
        talk = Talk(f"conv_{next(self.ids):032x}", title, turns or [], used_at=time.time())
        talk.leaf = talk.turns[-1]["id"] if talk.turns else None
        self.talks[talk.id] = talk
        return talk

    def talk_of(self, title: str | None, *turns: tuple[str, str]) -> Talk:
        """One that has been: what was asked, and answered."""
        talk = self.add(title)
        for asked, answer in turns:
            talk.turns.append(self.turn(asked, answer, talk.leaf))
            talk.leaf = talk.turns[-1]["id"]
        return talk

    def turn(self, asked: str, answer: str, parent: str | None, **more: Any) -> Json:
        made = len(answer.split())
        usage = {
            "input_tokens": 120,
            "output_tokens": made,
            "total_tokens": 120 + made,
            "input_tokens_details": {
                "cached_tokens": 96,
                "chatserve": {
                    "taken_over": 64,
                    "mapped": 0,
                    "copied": 32,
                    "promoted": 0,
                    "stopped": {"at": 96, "why": "record_ends", "found": None, "asked": {"id": 1, "text": "user"}},
                },
            },
        }
        return {
            "id": f"resp_{next(self.ids):032x}",
            "parent": parent,
            "created_at": int(time.time()),
            "status": "completed",
            "instructions": None,
            "messages": [message("user", asked)],
            "answer": answer,
            **shown(answer),
            "usage": usage,
            "times": {"ttft_ms": 112.0, "tokens_per_second": 27.6},
            "settings": {},
        } | more

    # -- routes

    def app(self) -> ASGIApp:
        one = "/page/conversations/{id}"
        routes = [
            Route("/", self.file),
            Route("/web/{name}", self.file),
            Route("/page/settings", self.settings),
            Route("/page/conversations", self.list, methods=["GET"]),
            Route("/page/conversations", self.create, methods=["POST"]),
            Route(one, self.tree, methods=["GET"]),
            Route(one, self.rename, methods=["POST"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(f"{one}/turns", self.ask, methods=["POST"]),
            Route(f"{one}/events", self.events),
            Route(f"{one}/export", self.export),
            Route("/page/import", self.take, methods=["POST"]),
            Route("/page/turns/{id}/stop", self.stop, methods=["POST"]),
            Route("/page/memory/events", self.memory_events),
            Route("/v1/{kind}/{id}/warm", self.warm, methods=["POST"]),
        ]
        return Guarded(Starlette(routes=routes), self)

    async def file(self, request: Request) -> Response:
        path = WEB / request.path_params.get("name", "index.html")
        if not path.is_file() or path.suffix not in TYPES:
            return failure(404, "There is no such file.")
        headers = {"cache-control": "no-cache", "content-security-policy": POLICY, "x-content-type-options": "nosniff"}
        return Response(path.read_bytes(), media_type=TYPES[path.suffix], headers=headers)

    async def settings(self, request: Request) -> Response:
        if self.key and not authorized(request, self.key):
            return JSONResponse({"needs_key": True})
        return JSONResponse(
            {
                "model": "scripted/model",
                "models": ["scripted/model"],
                "max_model_len": 8192,
                "needs_key": bool(self.key),
                "defaults": {"temperature": 0.7, "top_p": 0.9, "max_output_tokens": None},
                "version": "0.1.0",
                "limits": {"input_characters": 20000},
            }
        )

    async def list(self, request: Request) -> Response:
        words = request.query_params.get("query", "").lower().split()
        limit, after = int(request.query_params.get("limit", 40)), request.query_params.get("after")
        found = sorted(self.talks.values(), key=lambda talk: -talk.used_at)
        if after:
            ids = [talk.id for talk in found]
            found = found[ids.index(after) + 1 :]
        rows = [self.row(talk) | hit for talk in found if (hit := matches(talk, words)) is not None]
        return JSONResponse({"data": rows[:limit], "has_more": len(rows) > limit})

    def row(self, talk: Talk) -> Json:
        return {
            "id": talk.id,
            "title": talk.title,
            "created_at": talk.used_at,
            "used_at": talk.used_at,
            "running": talk.running is not None,
        }

    async def create(self, request: Request) -> Response:
        return JSONResponse(self.row(self.add((await request.json()).get("title"))))

    async def tree(self, request: Request) -> Response:
        talk = self.talk(request)
        if self.away:
            return failure(503, "There is nobody.")
        if talk is None:
            return failure(404, "There is no such conversation.")
        running = talk.running["id"] if talk.running else None
        answer = JSONResponse(self.row(talk) | {"leaf": talk.leaf, "running": running, "turns": talk.turns})
        late, self.late_tree = self.late_tree, None
        while late is not None and not late.is_set():
            await asyncio.sleep(0.01)
        return answer

    async def rename(self, request: Request) -> Response:
        talk = self.talk(request)
        assert talk is not None
        talk.title = (await request.json())["title"]
        talk.tell({"type": "renamed", "title": talk.title})
        return JSONResponse(self.row(talk))

    async def delete(self, request: Request) -> Response:
        talk = self.talks.pop(request.path_params["id"])
        talk.tell({"type": "deleted"})
        return JSONResponse({"deleted": True})

    async def ask(self, request: Request) -> Response:
        talk, body = self.talk(request), await request.json()
        assert talk is not None
        self.asked.append(("turn", talk.id, body))
        if self.refuse_next:
            status, error = self.refuse_next.pop(0)
            return JSONResponse({"error": error}, status)
        if talk.running:
            return JSONResponse(
                {"error": {"message": "A turn runs.", "code": "turn_running", "running": talk.running["id"]}}, 409
            )
        turn = self.turn(
            body["input"], "", body["parent"], instructions=body.get("instructions"), settings=body.get("settings")
        )
        asyncio.get_running_loop().create_task(self.run(talk, turn, self.answers(body["input"])))
        talk.running, talk.stop, talk.used_at, talk.written, talk.tokens = turn, False, time.time(), "", 0
        talk.tell({"type": "turn", "turn": begun(turn)})
        return JSONResponse({"id": turn["id"], "conversation": talk.id}, 202)

    async def run(self, talk: Talk, turn: Json, script: Script) -> None:
        blocks: list[str] = []
        for piece in script.pieces:
            await asyncio.sleep(script.pace)
            while script.hold is not None and not (script.hold.is_set() or talk.stop or talk.killed):
                await asyncio.sleep(0.01)
            if talk.killed:
                talk.running, talk.killed = None, False
                return
            if talk.stop:
                break
            talk.written += piece
            talk.tokens += 1
            now = shown(talk.written)
            start = next(
                (n for n, (a, b) in enumerate(zip(blocks, now["blocks"], strict=False)) if a != b),
                min(len(blocks), len(now["blocks"])),
            )
            blocks = now["blocks"]
            talk.tell(
                {
                    "type": "text",
                    "id": turn["id"],
                    "from": start,
                    "blocks": blocks[start:],
                    "thinking_html": now["thinking_html"],
                    "tokens": talk.tokens,
                }
            )
        talk.running = None
        if script.fails and not talk.stop:
            talk.tell({"type": "error", "id": turn["id"], "error": script.fails})
            return
        turn |= {"answer": talk.written, **shown(talk.written), "status": "cancelled" if talk.stop else "completed"}
        turn["usage"]["output_tokens"] = talk.tokens
        talk.turns.append(turn)
        talk.leaf = turn["id"]
        talk.tell({"type": "end", "turn": turn})

    async def stop(self, request: Request) -> Response:
        if self.away:
            return failure(503, "There is nobody.")
        for talk in self.talks.values():
            if talk.running and talk.running["id"] == request.path_params["id"]:
                talk.stop = True
                while talk.running:
                    await asyncio.sleep(0.01)
        return JSONResponse({"status": "cancelled"})

    async def events(self, request: Request) -> Response:
        talk = self.talk(request)
        if talk is None or self.away:
            return failure(404 if talk is None else 503, "There is no such conversation.")
        return StreamingResponse(self.listen(talk), media_type="text/event-stream")

    async def listen(self, talk: Talk) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[Json | None] = asyncio.Queue()
        talk.listeners.add(queue)
        try:
            running = talk.running
            yield data({"type": "state", "running": running["id"] if running else None, "elsewhere": False})
            if running:
                yield data({"type": "turn", "turn": begun(running)})
                yield data(
                    {"type": "text", "id": running["id"], "from": 0, **shown(talk.written), "tokens": talk.tokens}
                )
            while (event := await queue.get()) is not None:
                yield data(event)
        finally:
            talk.listeners.discard(queue)

    def cut(self, talk: Talk) -> None:
        """Every open stream of a conversation ends."""
        talk.tell(None)

    def kill(self, talk: Talk) -> None:
        """The server dies: what it was answering is saved nowhere. Another one is there at once."""
        talk.killed = True
        while talk.running:
            time.sleep(0.01)
        self.cut(talk)

    async def export(self, request: Request) -> Response:
        talk = self.talk(request)
        assert talk is not None
        headers = {"content-disposition": "attachment; filename=\"talk.json\"; filename*=UTF-8''talk.json"}
        return Response(
            json.dumps({"version": 1, "title": talk.title, "turns": talk.turns}),
            headers=headers,
            media_type="application/json",
        )

    async def take(self, request: Request) -> Response:
        body = await request.json()
        if not isinstance(body, dict) or "title" not in body:
            return failure(400, "title is missing.")
        talk = self.add(body["title"], body.get("turns", []))
        return JSONResponse(self.row(talk))

    async def warm(self, request: Request) -> Response:
        self.asked.append(("warm", request.path_params["id"], {}))
        return JSONResponse({})

    async def memory_events(self, _request: Request) -> Response:
        async def told() -> AsyncIterator[bytes]:
            before = None
            while True:
                if self.memory is not None and self.memory is not before:
                    before = self.memory
                    yield data({"type": "memory", **before})
                await asyncio.sleep(0.05)

        return StreamingResponse(told(), media_type="text/event-stream")

    def talk(self, request: Request) -> Talk | None:
        return self.talks.get(request.path_params["id"])


class Guarded:
    """Asks for the key where there is one."""

    def __init__(self, app: ASGIApp, page: ScriptedPage) -> None:
        self.app, self.page = app, page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self.page.key:
            request = Request(scope)
            public = request.url.path in ("/", "/page/settings") or request.url.path.startswith("/web/")
            assert self.page.key not in str(request.url), "a key in an address"
            if not public and not authorized(request, self.page.key):
                await failure(401, "This server asks for an API key.")(scope, receive, send)
                return
        await self.app(scope, receive, send)


def authorized(request: Request, key: str) -> bool:
    return request.headers.get("authorization") == f"Bearer {key}"


def failure(status: int, words: str) -> Response:
    return JSONResponse(
        {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}, status
    )


def begun(turn: Json) -> Json:
    return {key: turn[key] for key in ("id", "parent", "created_at", "messages", "instructions", "settings")}


def data(event: Json) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


def matches(talk: Talk, words: list[str]) -> Json | None:
    """What a hit adds to a row; None where it is none."""
    texts = [
        talk.title or "",
        *(turn["messages"][-1]["text"] for turn in talk.turns),
        *(turn["answer"] for turn in talk.turns),
    ]
    if not all(any(word in text.lower() for text in texts) for word in words):
        return None
    hit = next((text for text in texts[1:] if words and words[0] in text.lower()), None)
    return {} if hit is None else {"excerpt": hit[:160]}


@contextlib.contextmanager
def serving_script(page: ScriptedPage) -> Iterator[ScriptedPage]:
    """On a free port, in a thread."""
    port = free_port()
    page.url = f"http://127.0.0.1:{port}"
    server = uvicorn.Server(uvicorn.Config(page.app(), port=port, log_config=None, timeout_graceful_shutdown=0))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield page
    server.should_exit = True
    thread.join(5)
