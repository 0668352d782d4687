"""A conversation from a file: what `export` wrote, or a plain list of messages. Nothing of it is believed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from chatserve.page.export_wire import ExportedConversation, ExportedTurn
from chatserve.page.page_asks import read_title
from chatserve.page.tree_wire import TurnNotes
from chatserve.server.errors import BadRequest, shown
from chatserve.server.fields import Fields
from chatserve.server.item_asks import read_items
from chatserve.server.lengths import check_length
from chatserve.server.limits import ServerLimits
from sessions.planting import Seed
from sessions.turns import Message

LATEST: Final = 1e11
"""No time is later: some thousand years from now."""
_LONGEST_REASON: Final = 200
_PLACED: Final = re.compile(r"(.*) - at `\$\.?(.*)`", re.DOTALL)
_LARGEST: Final = 1e9
_notes: Final = msgspec.json.Decoder(TurnNotes)
_FIRST: Final = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Given:
    """A conversation to be planted. leaf: a place among the seeds, of which there is one at least."""

    title: str
    seeds: tuple[Seed, ...]
    leaf: int


def read_import(body: Mapping[str, object], limits: ServerLimits) -> Given:
    """Raises BadRequest, which names what is wrong."""
    title = read_title(Fields(body))
    if "turns" in body or "format" in body:
        seeds, leaf = _whole(body, limits)
    elif "messages" in body:
        seeds = _plain(read_items(body["messages"], "messages", limits.messages), time.time())
        leaf = len(seeds) - 1
    else:
        raise BadRequest(
            "The file is no conversation: it has neither turns, as an export has, nor messages.", param="turns"
        )
    check_length(sum(map(_length, seeds)), limits.text, "The conversation")
    return Given(title, seeds, leaf)


def _plain(messages: Sequence[Message], now: float) -> tuple[Seed, ...]:
    """A beginning with what stands before everything, then a turn for each answer; the last may have none yet."""
    first = next((place for place, each in enumerate(messages) if each.role not in _FIRST), len(messages))
    seeds = [Seed(parent=None, messages=tuple(messages[:first]), answer=None, created=now)]
    asked: list[Message] = []
    for message in messages[first:]:
        if message.role == "assistant":
            seeds.append(Seed(parent=len(seeds) - 1, messages=tuple(asked), answer=message.content, created=now))
            asked = []
        else:
            asked.append(message)
    if asked:
        seeds.append(Seed(parent=len(seeds) - 1, messages=tuple(asked), answer=None, created=now))
    return tuple(seeds)


def _whole(body: Mapping[str, object], limits: ServerLimits) -> tuple[tuple[Seed, ...], int]:
    try:
        given = msgspec.convert(body, ExportedConversation, strict=True)
    except msgspec.ValidationError as error:
        raise _unlike_an_export(error) from None
    _check_count(len(given.turns), "turns", limits.messages)
    _check_count(sum(len(turn.messages) for turn in given.turns), "messages", limits.messages)
    places: dict[str, int] = {}
    seeds: list[Seed] = []
    for place, turn in enumerate(given.turns):
        where = f"turns[{place}]"
        if turn.id in places:
            raise BadRequest(f"{where}.id {shown(turn.id)} is another turn's already.", param=f"{where}.id")
        seeds.append(_seed(turn, _place(turn.parent, places, f"{where}.parent"), where))
        places[turn.id] = place
    if not seeds:
        seeds.append(Seed(parent=None, messages=(), answer=None, created=time.time()))
    leaf = _place(given.leaf, places, "leaf")
    return tuple(seeds), len(seeds) - 1 if leaf is None else leaf


def _place(turn: str | None, places: Mapping[str, int], where: str) -> int | None:
    if turn is None:
        return None
    if turn not in places:
        raise BadRequest(f"{where} must be the id of a turn that stands before it, not {shown(turn)}.", param=where)
    return places[turn]


def _seed(turn: ExportedTurn, parent: int | None, where: str) -> Seed:
    if not 0 <= turn.created_at <= LATEST:
        raise BadRequest(
            f"{where}.created_at must be seconds since 1970, not {shown(turn.created_at)}.", param=f"{where}.created_at"
        )
    return Seed(
        parent=parent,
        messages=tuple(Message(each.role, each.content, each.name) for each in turn.messages),
        answer=turn.answer,
        created=turn.created_at,
        status=turn.status,
        instructions=turn.instructions,
        detail=_detail(turn, where),
    )


def _detail(turn: ExportedTurn, where: str) -> bytes:
    """What is known of an answer, as if it had been given here; nothing where nothing is."""
    if turn.answer is None or not (turn.model or turn.settings or turn.usage or turn.times):
        return b""
    settings = turn.settings or {}
    most = settings.get("max_output_tokens")
    notes = TurnNotes(
        created_at=int(turn.created_at),
        model=turn.model or "",
        temperature=_number(settings.get("temperature")),
        top_p=_number(settings.get("top_p")),
        instructions=turn.instructions,
        max_output_tokens=most if isinstance(most, int) and 0 < most < _LARGEST else None,
        usage=turn.usage,
        times=turn.times,
        settings=turn.settings,
    )
    detail = msgspec.json.encode(notes)
    try:
        _notes.decode(detail)
    except msgspec.ValidationError:  # a number of twenty digits
        raise BadRequest(f"{where} holds a number that is too large to be kept.", param=where) from None
    return detail


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and -_LARGEST < value < _LARGEST else 1.0


def _length(seed: Seed) -> int:
    texts: Iterable[str] = (message.content for message in seed.messages)
    return sum(map(len, texts)) + len(seed.answer or "") + len(seed.instructions or "")


def _check_count(found: int, what: str, most: int) -> None:
    if found > most:
        raise BadRequest(f"The conversation holds {found} {what}; the limit is {most}.", param="turns")


def _unlike_an_export(error: msgspec.ValidationError) -> BadRequest:
    placed = _PLACED.fullmatch(str(error))
    reason, where = placed.groups() if placed else (str(error), "")
    plain = reason.encode("ascii", "backslashreplace").decode()[:_LONGEST_REASON]
    return BadRequest(f"{where or 'The file'} is not as in an export: {plain}.", param=where or None)
