"""One answer over FastHttpUser's connection: when its request had been sent, and its stream to the end mark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from geventhttpclient.header import Headers
from geventhttpclient.response import HTTPParseError, HTTPSocketResponse
from locust.contrib.fasthttp import FastResponse

from chatserve.bench.dialects import BadAnswer
from chatserve.bench.measuring import Reading, check_status
from chatserve.bench.outcome import CUT, NONSENSE, TIMEOUT, UNREACHABLE


class TimedHeaders(Headers):
    """A response's are made when its request's last byte has been handed to the socket, and before anything of it is
    read. made: that moment.
    """

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        super().__init__(*arguments, **fields)
        self.made = time.perf_counter()


def sent_at(response: FastResponse) -> float | None:
    """When the request had been sent; None where it never was."""
    return response.headers.made if isinstance(response.headers, TimedHeaders) else None


def follow(response: FastResponse, reading: Reading, leave_after: int | None, deadline: float) -> bool:
    """Read the stream to the end of its body, or leave it after so many events with text: then True.

    deadline: of the whole, on perf_counter's clock. Raises BadAnswer.
    """
    error = getattr(response, "error", None)
    if error is not None and response.status_code == 0:
        raise BadAnswer(TIMEOUT if isinstance(error, TimeoutError) else UNREACHABLE, f"{type(error).__name__}: {error}")
    check_status(response.status_code, b"" if response.status_code == 200 else response.content or b"")
    body = response._response
    assert body is not None, "a response with a status has a body"
    try:
        for line in lines(body):
            now = time.perf_counter()
            reading.feed(line, now)
            if leave_after is not None and reading.events >= leave_after and not reading.over:
                body.release()
                return True
            if now > deadline:
                raise BadAnswer(TIMEOUT, f"no end mark after {reading.events} events with text")
    except TimeoutError as error:
        raise BadAnswer(TIMEOUT, f"{error} after {reading.events} events with text") from None
    except HTTPParseError as error:
        kind = NONSENSE if body.message_complete else CUT
        raise BadAnswer(kind, f"{error} after {reading.events} events with text") from None
    except OSError as error:
        raise BadAnswer(CUT, f"{error} after {reading.events} events with text") from None
    reading.close(time.perf_counter(), whole=body.message_complete)
    return False


def lines(body: HTTPSocketResponse) -> Iterator[bytes]:
    """Each line of a body as soon as it is whole, what follows the last at the end. Raises OSError and HTTPParseError.

    (`iter_content` waits until a block of a set size is full, and would see many events come at one moment.)
    """
    while line := body.readline(b"\n"):
        yield line
    if rest := body.read():
        yield rest
