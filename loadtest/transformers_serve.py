"""`transformers serve` with its continuous batching, on the same machine, model and dtype, to be compared with.

It takes no field that OpenAI does not have, ends an answer at the model's end token unless told that there is none, and
its streams have no end mark: the chunk with the reason and the usage is the last.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import msgspec

from chatserve.bench.dialects import Chat, Dialect, Meaning
from chatserve.bench.plan import ConversationPlan
from chatserve.bench.talks import Manner, Stateless, Talk
from chatserve.bench.target import Target
from chatserve.bench.user import Service
from loadtest.server import free_port

NO_END_TOKEN = '{"do_sample": false, "eos_token_id": -1}'
START_SECONDS = 300.0
PROGRAM = "import sys; from transformers.cli.transformers import main; sys.exit(main())"


class TransformersMissing(Exception):
    """It cannot be compared with."""


class UnmarkedChat(Chat):
    """The usage ends the stream."""

    end_mark = "its chunk with the usage"

    def read(self, name: bytes, data: bytes) -> Meaning:
        meaning = super().read(name, data)
        return meaning if meaning.usage is None else msgspec.structs.replace(meaning, end=True)


class UnmarkedTalk(Stateless):
    """One with it."""

    dialect: Dialect = UnmarkedChat()


class TransformersService(Service):
    """Answers are as long as is asked for here too, said in its own words."""

    def talk(self, plan: ConversationPlan) -> Talk:
        extra = {"generation_config": NO_END_TOKEN}
        return UnmarkedTalk(plan, replace(self.manner, fixed_length=False, extra=extra))


@contextmanager
def transformers_serve(folder: Path, dtype: str) -> Iterator[TransformersService]:
    """Until the block ends. Raises TransformersMissing where its server's libraries are not installed."""
    if find_spec("fastapi") is None:
        raise TransformersMissing("`transformers serve` needs fastapi: pip install 'chatserve[compare]'")
    port, model = free_port(), str(folder)
    command = [sys.executable, "-c", PROGRAM, "serve", "--continuous-batching", "--device", "cpu", "--dtype", dtype]
    command += ["--host", "127.0.0.1", "--port", str(port), "--log-level", "error", model]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process)
            yield TransformersService(Target.parse(url), Manner(model), timeout=600.0)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Raises TransformersMissing when it ends instead, or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urlopen(f"{url}/health", timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    raise TransformersMissing(f"`transformers serve` was not ready within {START_SECONDS:g} s")
