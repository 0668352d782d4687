"""The server of the page around a scripted engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from chatserve.engine.messages import Generate
from chatserve.text.tokenizer import Tokenizer
from tests.page.page_server import PageParts, open_page_parts
from tests.server.bytes_tokenizer import END, bytes_tokenizer
from tests.server.running_server import Running, serving
from tests.server.scripted import ScriptedEngine, ready

ANSWER = "Hello *there*.\n\nfriend"


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return bytes_tokenizer()


@pytest.fixture
async def engine(tokenizer: Tokenizer) -> ScriptedEngine:
    """Answers everything with ANSWER."""
    info = ready(vocab_size=tokenizer.vocab_size, end_ids=(tokenizer.encoder.controls[END],))
    return ScriptedEngine(info, lambda _request: tokenizer.encode(ANSWER))


@pytest.fixture
async def parts(tmp_path: Path, tokenizer: Tokenizer, engine: ScriptedEngine) -> AsyncIterator[PageParts]:
    parts = await open_page_parts(tmp_path, tokenizer, engine)
    yield parts
    await parts.store.close()


@pytest.fixture
async def page(parts: PageParts) -> AsyncIterator[httpx.AsyncClient]:
    """The application without a port, for whatever is answered in one piece."""
    transport = httpx.ASGITransport(app=parts.app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


@pytest.fixture
async def server(parts: PageParts) -> AsyncIterator[Running]:
    async with serving(parts) as running:
        yield running


def halting(engine: ScriptedEngine, answer: Sequence[int], after: int) -> None:
    """Have the engine say so many bytes of an answer and then no more, until it is stopped."""

    def script(_request: Generate) -> Iterator[int]:
        for place, token in enumerate(answer):
            if place == after:
                engine.pace = 3600
            yield token

    engine.script = script  # type: ignore[assignment]


@pytest.fixture
def halted(engine: ScriptedEngine, tokenizer: Tokenizer) -> ScriptedEngine:
    """Says "Hello" and then nothing."""
    halting(engine, tokenizer.encode(ANSWER), len("Hello"))
    return engine
