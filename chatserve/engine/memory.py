"""The engine's requests as vTensors: what each act of the scheduler asks of the mapper."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from chatserve.engine.leaders import Leaders
from chatserve.engine.request import Request, Tokens
from vtensor.driver.base import DeviceMemory, OutOfMemory
from vtensor.manager import Manager
from vtensor.mapper import Mapper
from vtensor.picture import Picture
from vtensor.pool import VTensor
from vtensor.prefix import PrefixMemory
from vtensor.reuse import Reuse, Stop, Why
from vtensor.reusing import Admitted, Origin
from vtensor.stats import MemoryStats

log = logging.getLogger(__name__)

Admission = Admitted | MemoryError | OutOfMemory | None
"""None: another one's prompt is waited for."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an admission asks for, taken from the request so that another thread may read it.

    prompt: as it was asked.  tokens: all that are known.
    most_rows: to have mapped at first: those of the tokens there are, and a few of those that will come.
    """

    tenant: str
    prompt: Tokens
    tokens: Tokens
    most_rows: int
    reuse: bool
    place: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """All that can be seen of memory at one moment. device: None where it says nothing of itself."""

    picture: Picture
    stats: MemoryStats
    device: DeviceMemory | None


class Memory:
    """capacity: tokens that one request can ever hold, prompt and answer together.

    first_rows: rows to have mapped when a request starts, beyond what it found recorded: those of the steps that are
        launched before the mapper is asked for more.
    ahead: rows to have mapped beyond the step that is being prepared, at least.
    share_from: tokens in common with a prompt that was just admitted, from which on another waits for them.
    """

    def __init__(self, mapper: Mapper, *, capacity: int, first_rows: int, ahead: int, share_from: int) -> None:
        self._mapper = mapper
        self.capacity = capacity
        self._first_rows = first_rows
        self._ahead = ahead
        self._share_from = share_from

    def admit(self, requests: Sequence[Request], *, headroom: int, at_once: bool) -> Future[list[Admission]]:
        """PrefixMatch or Create for each in turn, up to the first there is no memory for: its error ends the list.
        Whoever could share what one before it has to compute is passed over.

        headroom: chunks that must be left to get after each.  at_once: in this thread, if the mapper is idle.
        """
        wanted = [self._wanted(request) for request in requests]
        leaders = Leaders(self._share_from)
        do = self._mapper.at_once if at_once else self._mapper.submit
        return do(lambda manager: _admit_all(manager, wanted, leaders, self._first_rows, headroom))

    def _wanted(self, request: Request) -> Wanted:
        most_rows = min(request.known + self._ahead, request.most_rows)
        tokens = request.tokens(0, request.known)
        return Wanted(request.tenant, request.prompt, tokens, most_rows, request.reuse, request.place)

    def extend_ahead(self, request: Request, end: int, next_count: int) -> None:
        """Extend: the rows of a step that ends at row `end`, of the `next_count` rows after it, and a few more."""
        assert request.vtensor is not None
        self._mapper.extend_ahead(request.vtensor, min(end + max(next_count, self._ahead), request.most_rows))

    def has(self, request: Request, rows: int) -> bool:
        """Whether these rows are mapped already."""
        assert request.vtensor is not None
        return request.vtensor.rows >= rows

    def ready(self, request: Request, rows: int) -> bool:
        """Wait until these rows are mapped (True) or it is plain that memory is too short for them (False)."""
        assert request.vtensor is not None
        return self.has(request, rows) or self._mapper.ready(request.vtensor, rows)

    def publish(self, request: Request) -> None:
        """Let others match what a running request has computed."""
        vtensor, tenant, label = request.vtensor, request.tenant, request.label
        tokens = request.tokens(0, request.computed)
        assert vtensor is not None
        act = self._mapper.submit(lambda manager: manager.publish(vtensor, tenant, tokens, label=label))
        act.add_done_callback(_log_failure)

    def record(self, request: Request, length: int) -> Future[None]:
        """PrefixRecord of the first `length` computed tokens, and Release; one that reuses nothing leaves nothing."""
        vtensor, tenant, label = self._taken_from(request), request.tenant, request.label
        tokens = request.tokens(0, length)
        if request.reuse:
            act = self._mapper.submit(lambda manager: manager.prefix_record(vtensor, tenant, tokens, label=label))
        else:
            act = self._mapper.submit(lambda manager: manager.release(vtensor))
        act.add_done_callback(_log_failure)
        return act

    def release(self, request: Request) -> Future[None]:
        """Of what it computed nothing is recorded."""
        vtensor = self._taken_from(request)
        return self._mapper.submit(lambda manager: manager.release(vtensor))

    def look(self, tenant: str, tokens: Tokens) -> Future[PrefixMemory]:
        """What is recorded of these tokens; changes nothing."""
        return self._mapper.look(lambda manager: manager.look(tenant, tokens))

    def picture(self, tenant: str, *, most: int, focus: Collection[str]) -> Future[Seen]:
        """What this tenant has recorded, with the figures of the same moment; changes nothing."""
        return self._mapper.look(
            lambda manager: Seen(
                manager.picture(tenant, most=most, focus=focus), manager.stats(), manager.device_memory()
            )
        )

    def warm(self, tenant: str, tokens: Tokens) -> Future[PrefixMemory]:
        """Leave a warm slot for who goes on from these tokens, where that is possible; how it is then."""
        return self._mapper.submit(lambda manager: _warm(manager, tenant, tokens))

    def distrust(self, request: Request) -> None:
        """Release a request whose numbers went wrong, and forget whatever may have them."""
        vtensor = self._taken_from(request)
        self._mapper.submit(lambda manager: manager.distrust(vtensor))

    def check(self) -> None:
        """Raises what ended the mapper, if anything did."""
        self._mapper.check()

    def flush(self) -> Future[None]:
        """Forget recorded prefixes and give free memory back."""
        return self._mapper.submit(lambda manager: manager.flush())

    def stats(self) -> MemoryStats:
        """Measured after the acts before it."""
        return self._mapper.look(lambda manager: manager.stats()).result()

    def audit(self) -> None:
        """Raises AssertionError when the books do not balance."""
        self._mapper.look(lambda manager: manager.audit()).result()

    def close(self) -> None:
        """Everything back to the device."""
        self._mapper.close()

    def _taken_from(self, request: Request) -> VTensor:
        vtensor = request.vtensor
        assert vtensor is not None
        request.vtensor = None
        self._mapper.forget(vtensor)
        return vtensor


def _log_failure(act: Future[None]) -> None:
    """For acts whose outcome nobody waits for. A broken invariant ends the mapper, and with it the engine."""
    error = act.exception()
    if error is not None:
        log.error("a prefix was not recorded: %s", error)


def _admit_all(
    manager: Manager, wanted: Sequence[Wanted], leaders: Leaders, first_rows: int, headroom: int
) -> list[Admission]:
    admissions: list[Admission] = []
    for want in wanted:
        if leaders.leads(want):
            admissions.append(None)
            continue
        try:
            admitted = _admit(manager, want, first_rows, headroom)
        except (MemoryError, OutOfMemory) as error:
            admissions.append(error)
            break
        admissions.append(admitted)
        leaders.add(want, admitted.cached)
    return admissions


def _admit(manager: Manager, want: Wanted, first_rows: int, headroom: int) -> Admitted:
    if want.reuse:
        return manager.prefix_match(want.tenant, want.tokens, first_rows, most_rows=want.most_rows, headroom=headroom)
    vtensor = manager.create(min(first_rows, want.most_rows), headroom=headroom)
    return Admitted(vtensor, Origin.CREATED, Reuse(stop=Stop(0, Why.REUSE_OFF)))


def _warm(manager: Manager, tenant: str, tokens: Tokens) -> PrefixMemory:
    try:
        manager.warm(tenant, tokens)
    except (MemoryError, OutOfMemory) as error:
        log.info("a conversation was not warmed up: %s", error)
    return manager.look(tenant, tokens)
