"""API keys and rates of a server as its users start it: several processes, one door."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.integration.recital import Recital
from tests.integration.serving import CHAT, Serving, serving, start, wait_until

pytestmark = pytest.mark.model

ALICE, BOB, ROOT = "alice-secret-1234567", "bob-secret-123456789", "root-secret-12345678"
HELLO = {"messages": [{"role": "user", "content": "Recite."}], "max_tokens": 2}


@dataclass(frozen=True)
class Guarded:
    server: Serving
    keys: Path

    def ask(self, secret: str | None, method: str = "POST", path: str = CHAT, **headers: str) -> httpx.Response:
        """On a connection of its own, so by any worker."""
        known = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        body = HELLO if path == CHAT else None
        return httpx.request(method, self.server.url + path, json=body, headers=known | headers, timeout=60)


@pytest.fixture(scope="module")
def guarded(recital: Recital, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    keys = folder / "keys"
    keys.write_text(f"alice:{ALICE}\nbob:{BOB} requests=6\nroot:{ROOT} admin\n")
    arguments = ("--device", "cpu", "--workers", "2", "--api-keys", str(keys), "--cors-origin", "https://chat.example")
    with serving(str(recital.folder), *arguments, folder=folder) as server:
        wait_until(lambda: "is ready at" in server.output.read_text())
        yield Guarded(server, keys)


def test_every_worker_asks_for_a_key(guarded: Guarded) -> None:
    assert {guarded.ask(None).status_code for _ in range(10)} == {401}
    assert {guarded.ask(ALICE).status_code for _ in range(10)} == {200}
    assert {guarded.ask(ALICE, "POST", "/admin/flush").status_code for _ in range(6)} == {403}
    assert {guarded.ask(ROOT, "GET", "/admin/stats").status_code for _ in range(6)} == {200}
    assert guarded.ask(None, "GET", "/health").status_code == 200
    allowed = guarded.ask(None, Origin="https://chat.example")
    assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (401, "https://chat.example")


def test_a_limit_holds_over_all_workers_together(guarded: Guarded) -> None:
    statuses = [guarded.ask(BOB, "GET", "/v1/models").status_code for _ in range(12)]
    assert statuses[:6] == [200] * 6
    assert statuses.count(200) <= 7  # one may have come back meanwhile
    assert guarded.ask(BOB, "GET", "/v1/models").headers["retry-after"]


def test_a_signal_has_all_workers_read_the_keys_again(guarded: Guarded) -> None:
    newer = "alice-newer-secret-1"
    guarded.keys.write_text(f"alice:{newer}\n")
    guarded.server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: {guarded.ask(newer, "GET", "/v1/models").status_code for _ in range(8)} == {200})
    assert {guarded.ask(ALICE, "GET", "/v1/models").status_code for _ in range(8)} == {401}
    guarded.keys.write_text("broken")
    guarded.server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: guarded.server.output.read_text().count("the keys stay as they were") == 2)
    assert {guarded.ask(newer, "GET", "/v1/models").status_code for _ in range(8)} == {200}


def test_no_secret_is_in_the_output_or_on_a_command_line(guarded: Guarded) -> None:
    said = guarded.server.output.read_text()
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in guarded.server.children()]
    assert "key alice" in said
    for secret in (ALICE, BOB, ROOT):
        assert secret not in said
        assert not any(secret in line for line in lines)


def test_keys_that_cannot_be_used_end_the_start_with_a_sentence(recital: Recital, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"alice:{ALICE}\nbob-without-a-secret\n")
    for workers in ("1", "2"):
        arguments = ("--device", "cpu", "--workers", workers, "--api-keys", str(tmp_path / "keys"))
        server = start(str(recital.folder), *arguments, folder=tmp_path)
        assert server.process.wait(30) == 1
        said = server.output.read_text()
        assert "line 2 of the file of API keys" in said
        assert "Traceback" not in said
        assert ALICE not in said


def test_one_key_can_come_from_the_environment(
    recital: Recital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "CHATSERVE_API_KEY", ALICE)
    with serving(str(recital.folder), "--device", "cpu", "--public-metrics", folder=tmp_path) as server:
        alone = Guarded(server, tmp_path)
        assert alone.ask(None).status_code == 401
        assert alone.ask(ALICE).status_code == 200
        assert alone.ask(ALICE, "POST", "/admin/flush").status_code == 200
        assert alone.ask(None, "GET", "/metrics").status_code == 200
        assert ALICE not in server.output.read_text()
