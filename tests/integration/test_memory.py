"""Memory as the kernel sees it: what a load took is given back, what is recorded stays until it is told to go."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.conftest import RESERVE, SCRATCH
from tests.integration.serving import Serving, wait_until

pytestmark = pytest.mark.model

IDLE_SECONDS = 3.0


def held(server: Serving) -> int:
    stats = server.stats()
    return stats["private_bytes"] + stats["shared_bytes"]


def test_free_memory_returns_within_a_second_and_recorded_prefixes_stay_until_a_flush(reciting: Serving) -> None:
    reciting.post("/admin/flush", {}).raise_for_status()
    story = "a story of some length " * 150

    def talk(number: int) -> None:
        asked = {"cache_salt": "a burst", "max_tokens": 40, "ignore_eos": True}
        reciting.ask(f"{number} {story}", **asked)
        reciting.ask(f"{number} {story}", reuse_prefix=False, **asked)  # which leaves nothing but free memory

    with ThreadPoolExecutor(6) as pool:
        talks = [pool.submit(talk, number) for number in range(6)]
        peak = 0
        while not all(each.done() for each in talks):
            peak = max(peak, reciting.kv_bytes())
            time.sleep(0.02)
        for each in talks:
            each.result()
    wait_until(lambda: reciting.kv_bytes() <= held(reciting) + RESERVE + SCRATCH, 1.5)
    recorded = held(reciting)
    assert recorded + RESERVE < peak
    time.sleep(IDLE_SECONDS)
    assert recorded <= reciting.kv_bytes() <= recorded + RESERVE + SCRATCH
    again = reciting.ask(f"3 {story}", cache_salt="a burst", max_tokens=1)
    assert again.cached == again.prompt - 1
    flushed = reciting.post("/admin/flush", {}).json()
    assert (flushed["recorded_tokens"], flushed["private_bytes"], flushed["shared_bytes"]) == (0, 0, 0)
    assert 0 < reciting.kv_bytes() <= RESERVE + SCRATCH
    assert reciting.ask(f"3 {story}", cache_salt="a burst", max_tokens=1).cached == 0
