"""KV memory over time under a changing request rate: bursts, pauses, and what goes back to the device between them.

A real mapper on a real driver; requests come by a seeded Poisson process, grow at the pace of decoding, and are
recorded or released. Nothing is computed: memory is what is looked at.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from loadtest.memory_batches import lengths
from loadtest.memory_shape import Shape
from vtensor.driver.base import Driver
from vtensor.manager import Manager
from vtensor.mapper import Mapper
from vtensor.pool import VTensor

PHASES = ((0.05, 0.0), (0.2, 0.25), (0.2, 0.0), (0.25, 1.0), (0.3, 0.0))
"""Each a share of the whole time, and a share of the highest request rate."""
TICK = 0.02
AHEAD = 64
RELEASED = 0.25
"""Of the requests, how many leave nothing recorded; of the others, half go on with a recorded conversation."""
LONGEST_ANSWER = 512
SLOTS = 256
LATE_SECONDS = 5.0
Tokens = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Pace:
    """seconds: of the whole trace.  rate: requests a second at the highest.  tokens: a second, of one request.

    keep_unused: seconds after which a recorded prefix is forgotten, as a server's --kv-idle-ttl.
    """

    seconds: float = 30.0
    rate: float = 32.0
    tokens: float = 250.0
    keep_unused: float = 1.0


@dataclass(slots=True)
class Running:
    """One request: its rows now, and at its end."""

    vtensor: VTensor
    tokens: Tokens
    rows: float


@dataclass(slots=True)
class Samples:
    """Columns over time: bytes, but for `seconds`, `rate` (requests a second) and `running`."""

    seconds: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    used: list[int] = field(default_factory=list)
    physical: list[int] = field(default_factory=list)
    held: list[int] = field(default_factory=list)
    device_free: list[int] = field(default_factory=list)


def arrivals(pace: Pace, random: np.random.Generator) -> list[float]:
    """Seconds from the beginning at which requests come."""
    times: list[float] = []
    began = 0.0
    for share, rate in PHASES:
        ended = began + share * pace.seconds
        times += sorted(random.uniform(began, ended, random.poisson(rate * pace.rate * (ended - began))))
        began = ended
    return times


def rate_at(pace: Pace, now: float) -> float:
    """Requests a second."""
    began = 0.0
    for share, rate in PHASES:
        began += share * pace.seconds
        if now < began:
            return rate * pace.rate
    return 0.0


class Trace:
    """Runs once, in real time: what the mapper gives back, it gives back after real pauses."""

    def __init__(self, driver: Driver, shape: Shape, pace: Pace, seed: int) -> None:
        layout = shape.layout(driver)
        limit = shape.most_chunks_bytes // layout.chunk_bytes
        manager = Manager(driver, layout, slots=SLOTS, limit=limit)
        self._mapper = Mapper(manager, keep_unused=pace.keep_unused)
        self._driver, self._shape, self._pace = driver, shape, pace
        self._random = np.random.default_rng(seed)
        self._running: list[Running] = []
        self._recorded: list[Tokens] = []
        self._waits = 0
        self.samples = Samples()

    def run(self) -> dict[str, Any]:
        """The samples and what they come to."""
        coming = arrivals(self._pace, self._random)
        ends = lengths(len(coming), self._shape.max_len // 2, int(self._random.integers(1 << 30)))
        began = last = time.monotonic()
        try:
            while (now := time.monotonic() - began) < self._pace.seconds or self._lingers(now):
                while coming and coming[0] <= now:
                    coming.pop(0)
                    self._arrive(ends.pop())
                self._grow(began + now - last)
                last = began + now
                self._sample(now)
                time.sleep(max(0.0, TICK - (time.monotonic() - began - now)))
            self._mapper.look(lambda manager: manager.audit()).result()
            stats = self._mapper.look(lambda manager: manager.stats()).result()
        finally:
            self._mapper.close()
        return self._summary() | {
            "takeovers": stats.takeovers,
            "matches": stats.matches,
            "creates": stats.creates,
            "driver_calls": stats.driver_calls,
        }

    def _lingers(self, now: float) -> bool:
        """Whether the last of it is still there when it should have gone: a busy machine is late."""
        return self.samples.physical[-1] > 0 and now < self._pace.seconds + LATE_SECONDS

    def _arrive(self, length: int) -> None:
        fresh = self._random.integers(0, 49_152, length, dtype=np.int32)
        if self._recorded and self._random.random() < 0.5:
            past = self._recorded.pop(int(self._random.integers(len(self._recorded))))
            fresh = np.append(past, fresh)[: self._shape.max_len]
        prompt = fresh[: max(1, len(fresh) - min(length // 2, LONGEST_ANSWER))]
        admitted = self._mapper.submit(lambda manager: manager.prefix_match("", prompt, len(prompt))).result()
        self._running.append(Running(admitted.vtensor, fresh, len(prompt)))

    def _grow(self, seconds: float) -> None:
        for request in list(self._running):
            request.rows = min(request.rows + seconds * self._pace.tokens, len(request.tokens))
            rows = int(request.rows)
            self._waits += request.vtensor.rows < rows
            assert self._mapper.ready(request.vtensor, rows), "the device has too little memory for this trace"
            self._mapper.extend_ahead(request.vtensor, min(rows + AHEAD, len(request.tokens)))
            if rows == len(request.tokens):
                self._running.remove(request)
                self._leave(request)

    def _leave(self, request: Running) -> None:
        vtensor, tokens = request.vtensor, request.tokens
        self._mapper.forget(vtensor)
        if self._random.random() < RELEASED:
            self._mapper.submit(lambda manager: manager.release(vtensor))
            return
        self._mapper.submit(lambda manager: manager.prefix_record(vtensor, "", tokens))
        self._recorded.append(tokens)

    def _sample(self, now: float) -> None:
        stats = self._mapper.look(lambda manager: manager.stats()).result()
        samples = self.samples
        samples.seconds.append(round(now, 3))
        samples.rate.append(rate_at(self._pace, now))
        samples.running.append(len(self._running))
        samples.used.append(sum(int(each.rows) for each in self._running) * self._shape.token_bytes)
        samples.physical.append(stats.bytes(stats.physical_chunks))
        samples.held.append(stats.bytes(stats.physical_chunks - stats.free_chunks))
        samples.device_free.append(self._driver.free_bytes())

    def _summary(self) -> dict[str, Any]:
        samples, pace = self.samples, self._pace
        pauses = []
        began = 0.0
        for share, rate in PHASES:
            ended = began + share * pace.seconds
            if rate == 0:
                inside = [
                    bytes_
                    for seconds, bytes_ in zip(samples.seconds, samples.physical, strict=True)
                    if began <= seconds < ended
                ]
                pauses.append(min(inside, default=0))
            began = ended
        return {
            "requests_running_at_most": max(samples.running),
            "physical_bytes_at_most": max(samples.physical),
            "native_bytes_at_most": self._shape.native_bytes(max(samples.running)),
            "physical_bytes_at_least_in_each_pause": pauses,
            "physical_bytes_at_the_end": samples.physical[-1],
            "rows_waited_for": self._waits,
            "samples": {name: getattr(samples, name) for name in Samples.__slots__},
        }
