"""What happens around a conversation: engines die, servers are told to leave, start again, or cannot start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.whole.serving import serving, start, wait_until

pytestmark = pytest.mark.model

STORY = [{"role": "user", "content": "Tell me a very long story."}]


def cached(event: dict[str, Any]) -> int:
    return int(event["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_a_conversation_goes_on_after_its_engine_died_and_after_its_server_was_restarted(
    demo_folder: Path, tmp_path: Path
) -> None:
    """A12 and the issue's own: streams are told, the engine comes back, history is there, no process is left."""
    asked = {"max_tokens": 20, "temperature": 0, "session_id": "s", "ignore_eos": True}
    with serving(str(demo_folder), folder=tmp_path) as server:
        first = server.events(messages=STORY, stream_options={"include_usage": True}, **asked)
        known = first[-1]["usage"]["total_tokens"]
        engine, events = server.engine_pid(), []

        def read() -> None:
            events.extend(server.events(messages=STORY, **(asked | {"max_tokens": 4000, "session_id": "t"})))

        reader = threading.Thread(target=read)
        reader.start()
        wait_until(lambda: server.stats()["running"] == 1)
        os.kill(engine, signal.SIGKILL)
        reader.join(30)
        assert events[-1]["error"]["code"] == "engine_died"
        wait_until(server.is_ready, 60)
        assert server.engine_pid() != engine
        second = server.events(messages=STORY, stream_options={"include_usage": True}, **asked)
        assert second[-1]["usage"]["prompt_tokens"] > known
        third = server.events(messages=STORY, stream_options={"include_usage": True}, **asked)
        assert cached(third[-1]) >= second[-1]["usage"]["total_tokens"] - 2
        engine = server.engine_pid()
        assert server.stop() == 0
        wait_until(lambda: not Path(f"/proc/{engine}").exists(), 5)
    with serving(str(demo_folder), folder=tmp_path) as server:
        fourth = server.events(messages=STORY, stream_options={"include_usage": True}, **asked)
        assert fourth[-1]["usage"]["prompt_tokens"] > third[-1]["usage"]["total_tokens"]
        engine = server.engine_pid()
        server.process.kill()
        wait_until(lambda: not Path(f"/proc/{engine}").exists(), 10)


def test_told_to_leave_it_lets_answers_finish_and_saves_those_it_cannot_wait_for(
    demo_folder: Path, tmp_path: Path
) -> None:
    """A48(a)."""
    results: dict[str, list[dict[str, Any]]] = {}
    with serving(str(demo_folder), "--drain", "12", folder=tmp_path) as server:

        def read(name: str, tokens: int) -> None:
            results[name] = server.events(messages=STORY, max_tokens=tokens, ignore_eos=True, session_id=name)

        readers = [threading.Thread(target=read, args=each) for each in (("short", 6), ("endless", 7000))]
        for reader in readers:
            reader.start()
        wait_until(lambda: server.stats()["running"] == 2)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        refused = httpx.post(f"{server.url}/v1/chat/completions", json={"messages": STORY})
        assert server.process.wait(30) == 0
        for reader in readers:
            reader.join(10)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "draining")
    assert results["short"][-1]["choices"][0]["finish_reason"] == "length"
    assert results["endless"][-1]["error"]["code"] == "draining"
    seen = "".join(each["choices"][0]["delta"].get("content", "") for each in results["endless"][:-1])
    assert len(seen) > 20
    with serving(str(demo_folder), folder=tmp_path) as server:
        after = server.events(
            messages=STORY, max_tokens=1, session_id="endless", stream_options={"include_usage": True}
        )
        assert after[-1]["usage"]["prompt_tokens"] > len(seen) // 6


def test_a_taken_port_is_told_before_anything_is_loaded_and_a_killed_server_can_start_again(
    demo_folder: Path, tmp_path: Path
) -> None:
    """A47(c)."""
    with serving(str(demo_folder), folder=tmp_path) as server:
        second = start("no-such-model", folder=tmp_path, port=server.port)
        assert second.process.wait(20) == 1
        assert "in use" in second.log.read_text()
        assert "no-such-model" not in second.log.read_text()
        server.process.kill()
        server.process.wait()
        third = start(str(demo_folder), folder=tmp_path, port=server.port)
        wait_until(third.is_ready, 60)
        assert third.stop() == 0


def test_a_model_that_cannot_run_is_refused_by_name(demo_folder: Path, tmp_path: Path) -> None:
    """A45: a sliding window that is real, not only mentioned."""
    folder = tmp_path / "windowed"
    folder.mkdir()
    for file in demo_folder.iterdir():
        (folder / file.name).symlink_to(file)
    config = json.loads((demo_folder / "config.json").read_text())
    (folder / "config.json").unlink()
    mistral = {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 128}
    (folder / "config.json").write_text(json.dumps(config | mistral))
    server = start(str(folder), folder=tmp_path)
    assert server.process.wait(60) == 1
    assert "sliding" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()


def test_the_terminal_client_shows_what_was_reused(demo_folder: Path, tmp_path: Path) -> None:
    with serving(str(demo_folder), folder=tmp_path) as server:
        talk = subprocess.run(
            [sys.executable, "-m", "chatserve", "chat", "--url", server.url],
            input=b"Say one word.\nAnd another word.\n/quit\n",
            capture_output=True,
            timeout=300,
            check=False,
        )
    shown = [line for line in talk.stdout.decode().splitlines() if "tokens reused" in line]
    assert len(shown) == 2
    assert "0 of" in shown[0]
    assert "0 of" not in shown[1].replace("10 of", "").replace("20 of", "")
