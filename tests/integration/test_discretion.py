"""What people write, and how they name things, is nowhere in the output or the metrics of a server."""

from __future__ import annotations

import pytest

from tests.integration.serving import CHAT, Serving, until
from tests.server.wire_client import WireClient

pytestmark = pytest.mark.model

MARKER = "plugh-private"


async def test_a_marker_in_prompts_names_and_headers_is_never_logged(reciting: Serving) -> None:
    """A40: success, refusals, an unknown route, a client that leaves; an engine's death has a test of its own."""
    said = {"messages": [{"role": "user", "content": f"Recite {MARKER}."}], "session_id": MARKER, "cache_salt": MARKER}
    headers = {"Authorization": f"Bearer {MARKER}", "X-Note": MARKER, "Cookie": MARKER}
    assert reciting.post(CHAT, said | {"max_tokens": 3}, **headers).status_code == 200
    refused = (
        said | {"temperature": MARKER},
        said | {"model": MARKER},
        said | {"session_id": f"{MARKER} {MARKER}"},
        said | {"messages": [{"role": MARKER, "content": MARKER}]},
        said | {"messages": [{"role": "user", "content": f"{MARKER} " * 20_000}]},
    )
    for body in refused:
        assert 400 <= reciting.post(CHAT, body, **headers).status_code < 500
    assert reciting.post(f"/v1/{MARKER}?{MARKER}={MARKER}", said).status_code == 404
    client = await WireClient.connect(reciting.port)
    await client.post(CHAT, said | {"stream": True, "ignore_eos": True}, **headers)
    await client.head()
    await client.chunk()
    client.vanish()
    await until(reciting.idle)
    assert MARKER not in reciting.output.read_text()
    metrics = reciting.get("/metrics").text
    assert "vllm:request_success_total" in metrics
    assert MARKER not in metrics
