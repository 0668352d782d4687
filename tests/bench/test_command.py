"""`chatserve bench` as its users type it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import msgspec
import pytest

from chatserve.bench.record import Record
from chatserve.cli import main
from tests.bench.scripted import Script, answers, program, served, truths_of

QUICK = ["--turns", "2", "--system", "10", "--first", "8", "--later", "6", "--answer", "6"]


def bench(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chatserve", "bench", *arguments]
    variables = {**os.environ, "COLUMNS": "140", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=110, env=variables)


def figure(shown: str, name: str) -> str:
    """The first figure of a row."""
    match = re.search(rf"│ {re.escape(name)}\s+│\s+([^│]*?)\s+│", shown)
    assert match is not None, shown
    return match[1]


def test_a_closed_loop_is_measured_told_kept_and_shown(tmp_path: Path) -> None:
    kept, plots, report = tmp_path / "a" / "out.json", tmp_path / "plots", tmp_path / "report.html"
    with served(Script(first=0.05, between=0.005)) as scripted:
        told = bench(
            scripted.url,
            *(*QUICK, "--concurrency", "3", "--conversations", "6", "--processes", "2", "--seed", "7"),
            *("--slo", "ttft=10s,tpot=5s", "--json", str(kept), "--plots", str(plots)),
            CHATSERVE_API_KEY="secret",
        )
    assert told.returncode == 0, told.stderr
    assert figure(told.stdout, "whole answers") == "12"
    assert figure(told.stdout, "failed") == "0"
    assert figure(told.stdout, "cached share") == "75.0%"
    assert float(figure(told.stdout, "TTFT, later turns")) >= 50
    assert "closed loop, 3 conversations at once; 6 conversations in all; seed 7" in told.stdout
    assert "2 client processes" in told.stdout
    assert "TTFT: time to first token" in told.stdout, "what the numbers mean stands beside them"
    record = msgspec.json.decode(kept.read_bytes(), type=Record)
    assert record.summaries[0].turns == len(record.runs[0].turns) == len(scripted.asks()) == 12
    assert {truth.head["authorization"] for truth in scripted.truths} == {"Bearer secret"}
    assert b"secret" not in kept.read_bytes()
    drawn = list(plots.iterdir())
    assert len(drawn) == 7
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in drawn)
    assert main(["bench", "report", str(kept), str(kept), "--out", str(report)]) == 0
    assert "TTFT, later turns" in report.read_text()


def test_an_open_loop_begins_as_many_as_it_says() -> None:
    with served(Script()) as scripted:
        told = bench(scripted.url, *QUICK, "--rate", "50", "--conversations", "10", "--stateful")
    assert told.returncode == 0, told.stderr
    assert "open loop, 50 conversations begin each second" in told.stdout
    assert len(scripted.asks()) == 20
    assert {truth.path for truth in scripted.asks()} == {"/v1/responses"}


def test_two_servers_are_compared_in_turn_with_the_same_words(tmp_path: Path) -> None:
    kept = tmp_path / "out.json"
    with served(Script()) as one, served(Script(first=0.05)) as other:
        told = bench(
            *(one.url, "--compare", other.url, "--extra-body", '{"top_k": 1}', "--compare-extra-body", '{"top_k": 2}'),
            *(*QUICK, "--concurrency", "2", "--json", str(kept)),
            CHATSERVE_API_KEY="a",
        )
    assert told.returncode == 0, told.stderr
    assert "B against A" in told.stdout
    record = msgspec.json.decode(kept.read_bytes(), type=Record)
    assert [(run.round, run.server, run.seed - record.runs[0].seed) for run in record.runs] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 1, 1),
        (1, 0, 1),
    ]
    assert [{truth.body["top_k"] for truth in each.asks()} for each in (one, other)] == [{1}, {2}]
    assert record.ratios is not None
    first, second = (summary.latencies["ttft_later"].p50 for summary in record.summaries)
    assert record.ratios["ttft_later"].ratio == pytest.approx(second / first, rel=1e-3)
    said = [sorted(truth.body["messages"][1]["content"] for truth in each.asks()) for each in (one, other)]
    assert said[0] == said[1]
    assert len(set(said[0])) == 16, "no text comes twice"
    assert all("authorization" not in truth.head for truth in other.truths), "a key is for its own server"


@pytest.mark.parametrize(
    ("status", "advice"), [(401, "--api-key"), (429, "try later"), (503, "not ready"), (404, "up to its /v1")]
)
def test_a_refusal_says_what_to_do(status: int, advice: str, capsys: pytest.CaptureFixture[str]) -> None:
    with served(Script(status=status)) as scripted:
        assert main(["bench", scripted.url]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert f"status {status}" in shown.err
    assert advice in shown.err
    assert shown.err.count("\n") == 1


def test_a_server_that_is_down_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert main(["bench", f"http://127.0.0.1:{port}"]) == 1
    assert "Is the server up" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
        (b"", "does not answer"),
    ],
)
def test_what_is_no_such_server_is_told_of(answer: bytes, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        assert main(["bench", f"http://127.0.0.1:{listening.getsockname()[1]}"]) == 1
        thread.join()
    assert told in capsys.readouterr().err


def test_a_server_that_always_fails_is_given_up_and_shown() -> None:
    with served(Script(lie="no end")) as scripted:
        told = bench(scripted.url, *QUICK, "--concurrency", "40", "--conversations", "4000")
    assert told.returncode == 1
    assert "given up, for every turn failed: no end mark" in told.stdout
    assert len(scripted.asks()) < 1000


def test_some_failures_are_counted_and_are_the_exit_status() -> None:
    with served(Script(lie="dies")) as scripted:
        told = bench(scripted.url, *QUICK, "--concurrency", "2", "--conversations", "2")
    assert told.returncode == 1
    assert figure(told.stdout, "cut off") == "2"
    assert "the connection was closed after" in told.stdout


def test_ctrl_c_prints_what_there_is(tmp_path: Path) -> None:
    kept = tmp_path / "out.json"
    with program("--first", "0.02", "--between", "0.002") as url:
        command = [sys.executable, "-m", "chatserve", "bench", url, *QUICK, "--seconds", "60", "--json", str(kept)]
        client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        while len(answers(truths_of(url))) < 20:
            time.sleep(0.05)
        os.killpg(client.pid, signal.SIGINT)  # as a terminal does: every process of it gets one
        told, _ = client.communicate(timeout=30)
    assert client.returncode == 130
    assert "stopped early: these are the turns that had ended by then." in told
    assert int(figure(told, "whole answers").replace(",", "")) >= 10
    assert figure(told, "failed") == "0"
    assert json.loads(kept.read_bytes())["runs"][0]["interrupted"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--turns", "0"], "write 6, or 6:2"),
        (["--think", "x"], "write 5"),
        (["--branch-rate", "2"], "from 0 to 1"),
        (["--priorities", "high"], "write 0=3,10=1"),
        (["--priorities", "0=0"], "all weights"),
        (["--slo", "ttft=5"], "ttft=500ms"),
        (["--texts", "/none.json"], "No such file"),
        (["--json", "/dev/null/x.json"], "name another place"),
        (["--extra-body", "[1]"], "is no JSON object"),
        (["here"], "write it as"),
    ],
)
def test_what_cannot_be_meant_is_told_how_to_be_written(
    wrong: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(Script()) as scripted:
        assert main(["bench", *([] if wrong == ["here"] else [scripted.url]), *wrong]) == 1
    assert told in capsys.readouterr().err


def test_a_report_of_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "report", str(tmp_path / "none.json"), "--out", str(tmp_path / "x.html")]) == 1
    assert "No such file" in capsys.readouterr().err
