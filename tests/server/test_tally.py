"""What several processes count together."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chatserve.server.metrics import Metrics, TurnTimes
from chatserve.server.tally import Tally

COUNTER = """
import sys
from chatserve.server.tally import Tally
tally = Tally(rows=2, row=1, file=int(sys.argv[1]))
place = tally.place(3)
for _ in range(1000):
    tally.own[place + 1] += 2
"""


@pytest.fixture
def shared():
    file = Tally.share(2)
    yield file
    os.close(file)


def test_rows_of_all_processes_are_added_up_and_a_successor_goes_on_where_the_dead_one_was(shared: int) -> None:
    own = Tally(rows=2, row=0, file=shared)
    place = own.place(3)
    own.own[place + 1] += 5
    for _ in range(2):
        subprocess.run([sys.executable, "-c", COUNTER, str(shared)], pass_fds=(shared,), check=True)
    assert own.sums(place, 3) == [0, 4005, 0]


def test_a_page_of_any_process_tells_of_all(shared: int) -> None:
    both = [Metrics("m", Tally(rows=2, row=row, file=shared)) for row in range(2)]
    for number, metrics in enumerate(both):
        for _ in range(number + 1):
            metrics.first_token.observe(0.03)
            metrics.first_token.observe(1e9)
            metrics.count_end("stop")
    pages = [metrics.render(None) for metrics in both]
    assert pages[0] == pages[1]
    samples = [sample for family in text_string_to_metric_families(pages[0].decode()) for sample in family.samples]
    found = {
        (sample.name, sample.labels.get("le") or sample.labels.get("finished_reason")): sample.value
        for sample in samples
    }
    assert found["vllm:time_to_first_token_seconds_bucket", "0.02"] == 0
    assert found["vllm:time_to_first_token_seconds_bucket", "0.04"] == 3
    assert found["vllm:time_to_first_token_seconds_bucket", "80.0"] == 3
    assert found["vllm:time_to_first_token_seconds_bucket", "+Inf"] == 6
    assert found["vllm:time_to_first_token_seconds_count", None] == 6
    assert found["vllm:request_success_total", "stop"] == 3


def test_the_time_between_tokens_that_come_together_is_shared_out() -> None:
    metrics = Metrics("m", Tally())
    times = TurnTimes(metrics)
    for tokens in (1, 1, 3, 0):
        times.note(tokens)
    times.end("abort")
    page = metrics.render(None).decode()
    assert 'vllm:inter_token_latency_seconds_count{model_name="m"} 2.0' in page
    assert 'vllm:request_success_total{finished_reason="abort",model_name="m"} 1.0' in page
