"""The operator's routes, and what the logs hold."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.server.conftest import ANSWER
from tests.server.running_server import MODEL, Running
from tests.server.scripted import ScriptedEngine
from tests.server.test_disconnects import HELLO, until
from tests.server.wire_client import WireClient


async def metrics(api: httpx.AsyncClient) -> dict[str, float]:
    page = (await api.get("/metrics")).text
    families = text_string_to_metric_families(page)
    samples = [sample for family in families for sample in family.samples]
    assert all(sample.labels["model_name"] == MODEL for sample in samples)
    return {
        "/".join((sample.name, *filter(None, [sample.labels.get("finished_reason")]))): sample.value
        for sample in samples
        if "le" not in sample.labels and not sample.name.endswith("_created")
    }


async def test_metrics_tell_of_turns_and_of_the_engine_in_vllms_names(
    api: httpx.AsyncClient, engine: ScriptedEngine
) -> None:
    for more in ({}, {}, {"max_tokens": 2}):
        await api.post("/v1/chat/completions", json=HELLO | more)
    found = await metrics(api)
    assert found["vllm:request_success_total/stop"] == 2
    assert found["vllm:request_success_total/length"] == 1
    assert found["vllm:time_to_first_token_seconds_count"] == 3
    assert found["vllm:e2e_request_latency_seconds_count"] == 3
    assert found["vllm:kv_cache_usage_perc"] == 0.25
    assert found["chatserve:kv_private_bytes"] == 25
    for name in (
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:num_preemptions_total",
        "chatserve:stalls_total",
        "chatserve:takeovers_total",
        "chatserve:driver_calls_total",
        "chatserve:kv_shared_bytes",
        "chatserve:slots_warm",
    ):
        assert found[name] == 0
    engine.alive = False
    assert (await metrics(api))["vllm:request_success_total/stop"] == 2


async def test_abandoned_turns_are_counted_as_aborts(server: Running) -> None:
    server.engine.prefill = 60
    client = await WireClient.connect(server.port)
    await client.post("/v1/chat/completions", HELLO)
    await until(lambda: server.engine.streams)
    client.close()
    await until(lambda: server.engine.last.stopped)
    assert (await metrics(server.http()))["vllm:request_success_total/abort"] == 1


async def test_two_servers_in_one_process_count_apart(api: httpx.AsyncClient, parts) -> None:
    other = httpx.AsyncClient(transport=httpx.ASGITransport(app=parts.app()), base_url="http://other")
    await api.post("/v1/chat/completions", json=HELLO)
    assert "vllm:request_success_total/stop" not in await metrics(other)


async def test_ready_asks_the_engine(api: httpx.AsyncClient, engine: ScriptedEngine, monkeypatch) -> None:
    assert (await api.get("/ready")).json()["status"] == "ready"
    monkeypatch.setattr("chatserve.server.operating.ENGINE_ANSWERS_WITHIN", 0.05)
    engine.stats = lambda: asyncio.sleep(60)
    response = await api.get("/ready")
    assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_silent")
    engine.alive = False
    assert (await api.get("/ready")).json()["error"]["code"] == "engine_restarting"
    assert (await api.get("/health")).status_code == 200


async def test_flush_forgets_prefixes_and_stats_are_json(api: httpx.AsyncClient, engine: ScriptedEngine) -> None:
    await api.post("/v1/chat/completions", json=HELLO)
    assert engine.recorded
    response = await api.post("/admin/flush")
    assert response.json() == (await api.get("/admin/stats")).json()
    assert response.json()["limit_bytes"] == 100
    assert engine.recorded == []
    engine.alive = False
    assert (await api.post("/admin/flush")).status_code == 503
    assert (await api.get("/admin/stats")).status_code == 503


async def test_no_word_of_a_user_is_logged_or_measured(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """A40: at the most talkative level, through success, 400, 404, 413, 500, a disconnect and an engine that dies."""
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore", "openai"):  # the client's own
        logging.getLogger(name).setLevel(logging.WARNING)
    marker = "xyzzymarker"
    server.engine.script = lambda _request: server.parts.tokenizer.encode(f"{marker} {ANSWER}")
    said = {"messages": [{"role": "user", "content": marker}], "session_id": marker, "user": marker}
    client = httpx.AsyncClient(base_url=server.url, headers={"Authorization": marker, "X-Request-Id": marker})
    for body in (said, said | {"stream": True}, said | {"temperature": marker}, said | {"model": marker}, [marker]):
        response = await client.post("/v1/chat/completions", json=body)
        assert response.headers["x-request-id"] != marker
    await client.post("/v1/chat/completions", content=marker * 10**6, headers={"Content-Type": "application/json"})
    await client.get(f"/v1/models/{marker}")
    await client.get(f"/{marker}?{marker}")
    submit = server.engine.submit

    def broken(_request: object) -> None:
        raise RuntimeError(marker)

    server.engine.submit = broken
    assert (await client.post("/v1/chat/completions", json=said)).status_code == 500
    server.engine.submit = submit
    assert "RuntimeError" in caplog.text
    server.engine.pace = 0.02
    leaving = await WireClient.connect(server.port)
    await leaving.post("/v1/chat/completions", said | {"stream": True})
    await leaving.head()
    leaving.vanish()
    await until(lambda: not server.parts.running)
    dying = asyncio.create_task(client.post("/v1/chat/completions", json=said))
    await until(lambda: server.parts.running)
    server.engine.die()
    assert (await dying).status_code == 503
    assert marker not in (await client.get("/metrics")).text
    assert "POST /v1/chat/completions -> 200" in caplog.text
    assert marker not in caplog.text
