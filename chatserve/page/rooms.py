"""Conversations that are looked at or answered in just now, and all who are to know what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from chatserve.page.follower import Follower
from chatserve.page.live_turn import LiveTurn
from chatserve.page.live_wire import Begun, BegunView, Deleted, Event, Renamed, State
from chatserve.server.response_asks import RESPONSE


class Room:
    """One conversation.

    turn: that is answered in this process.  far: one that another process tells of.
    untold: turns whose end is still to be told; they may be saved already.
    opening: somebody here is about to begin one.  own: the last one whose end was, or will be, told here.
    elsewhere: one runs that nobody here can follow.  gone: the conversation was deleted.
    """

    def __init__(self) -> None:
        self.followers: set[Follower] = set()
        self.attended = asyncio.Event()
        self.turn: LiveTurn | None = None
        self.far: LiveTurn | None = None
        self.untold: set[LiveTurn] = set()
        self.own: str | None = None
        self.opening = False
        self.elsewhere = False
        self.gone = False
        self._stop: Callable[[], None] = lambda: None
        self._watching: asyncio.Task[None] | None = None

    @property
    def used(self) -> bool:
        return bool(self.followers or self.untold or self.opening)

    @property
    def shown(self) -> LiveTurn | None:
        """The turn that a page sees growing."""
        return self.turn or self.far

    @property
    def running(self) -> str | None:
        """As a page knows it."""
        return None if self.shown is None else RESPONSE + self.shown.id

    def begin(self, turn: LiveTurn, stop: Callable[[], None]) -> None:
        """stop: ends it, for a conversation that is deleted."""
        self.turn, self.own, self._stop = turn, turn.id, stop
        self.far, self.elsewhere = None, False
        self.untold.add(turn)

    def begin_far(self, begun: BegunView) -> None:
        """What another process makes: it will tell how it grows, and how it ends."""
        turn = LiveTurn(begun.id.removeprefix(RESPONSE))
        self.far, self.own, self.elsewhere = turn, turn.id, False
        self.open(turn, begun)

    def open(self, turn: LiveTurn, begun: BegunView) -> None:
        """What was asked can be shown."""
        turn.begun = begun
        self.tell(Begun(turn=begun))

    def join(self) -> Follower:
        """A new page, told how it stands."""
        follower = Follower()
        follower.tell(self.state())
        self.recall(follower)
        self.followers.add(follower)
        self.attended.set()
        return follower

    def recall(self, follower: Follower) -> None:
        """All that is known of the turn under way."""
        if self.shown is not None and self.shown.begun is not None:
            follower.tell(Begun(turn=self.shown.begun))
            follower.grew(self.shown, 0)

    @property
    def watched(self) -> bool:
        return self._watching is not None

    def watch(self, work: Coroutine[None, None, None]) -> None:
        """Have something done while there are followers."""
        self._watching = asyncio.create_task(work)

    def leave(self, follower: Follower) -> None:
        self.followers.discard(follower)
        if not self.followers:
            self.attended.clear()
            self.far = None
            if self._watching is not None:
                self._watching.cancel()
                self._watching = None

    def state(self) -> State:
        return State(running=self.running, elsewhere=self.elsewhere)

    def stand(self, *, elsewhere: bool) -> None:
        """Whether a turn runs that nobody here can follow."""
        if elsewhere != self.elsewhere:
            self.elsewhere = elsewhere
            self.tell(self.state())

    def tell(self, said: Event) -> None:
        for follower in self.followers:
            follower.tell(said)

    def grew(self, turn: LiveTurn, start: int) -> None:
        for follower in self.followers:
            follower.grew(turn, start)

    def saved(self, turn: LiveTurn) -> None:
        """The next one may begin, though the end of this one is still to be told."""
        if self.turn is turn:
            self.turn = None

    def end(self, turn: LiveTurn, said: Event) -> None:
        """Tell how it has ended, which says all that was to be told of it before."""
        self.untold.discard(turn)
        if self.far is turn:
            self.far = None
        for follower in self.followers:
            follower.forget(turn)
            follower.tell(said)

    def delete(self) -> None:
        """Nothing of it can be saved any more, so its turn ends here."""
        self.gone = True
        self.tell(Deleted())
        self.close()
        if self.turn is not None:
            self._stop()

    def close(self) -> None:
        """Send everybody away; they may ask again."""
        for follower in self.followers:
            follower.close()


class Rooms:
    """By the conversations' ids in the store. Whoever enters has been seen to be its tenant."""

    def __init__(self) -> None:
        self._rooms: dict[str, Room] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def of(self, conversation: str) -> Room:
        """Kept as long as it is used; to be let go of afterwards."""
        return self._rooms.setdefault(conversation, Room())

    def known(self, conversation: str) -> Room | None:
        """One that is used."""
        return self._rooms.get(conversation)

    def let_go(self, conversation: str) -> None:
        """Nobody needs to know it any more, perhaps."""
        room = self._rooms.get(conversation)
        if room is not None and not room.used:
            del self._rooms[conversation]

    def running(self, conversation: str) -> str | None:
        """The id of the turn that can be followed here now, as the store will know it."""
        room = self._rooms.get(conversation)
        return None if room is None or room.shown is None else room.shown.id

    def renamed(self, conversation: str, title: str) -> None:
        room = self._rooms.get(conversation)
        if room is not None:
            room.tell(Renamed(title=title))

    def deleted(self, conversation: str) -> None:
        room = self._rooms.get(conversation)
        if room is not None and not room.gone:
            room.delete()
