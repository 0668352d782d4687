"""The search for words on a Redis server: a script proposes some conversations at a time, a look at the texts decides.

The server does nothing else while a script runs, so each looks at a few only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sessions.redis_line import RedisLine
from sessions.redis_records import (
    chain_from_records,
    conversation_from_fields,
    turn_from_record,
    turns_from_records,
)
from sessions.redis_scripts import CHAIN, TURNS, script
from sessions.search import Hit, hit, in_json, said, spellings, texts_left
from sessions.store import NotFound
from sessions.turns import Conversation

BLOCK: Final = 16
"""Conversations that one script looks at: some milliseconds."""

START: Final = script("""
-- ARGV: tenant, after or '' -> the place in the list by last use where it goes on; -1: `after` is not there
if ARGV[2] == '' then return 0 end
local rank = call('ZREVRANK', P .. 'used:' .. ARGV[1], ARGV[2])
return rank and rank + 1 or -1
""")

PROPOSE: Final = script("""
-- ARGV: tenant, place, count, words (JSON: of each its spellings, plain and escaped) -> how many were looked at, then
-- those in which each word seems to occur: a conversation's fields, the records of turns in which any does, and whether
-- something was taken out of it (the role's name behind MessagePack's mark of its length)
local words = cjson.decode(ARGV[4])
local function says(text, spellings, form)
  for _, spelling in ipairs(spellings) do
    if text:find(spelling[form], 1, true) then return true end
  end
  return false
end
local ids = call('ZREVRANGE', P .. 'used:' .. ARGV[1], ARGV[2], ARGV[2] + ARGV[3] - 1)
local found = {#ids}
for _, id in ipairs(ids) do
  local c, hidden, records, seen, count, noted = P .. 'c:' .. id, {}, {}, {}, 0, 0
  local metadata, session, hides = unpack(call('HMGET', c, 'metadata', 'session', 'hidden'))
  local function note(n) if not seen[n] then seen[n] = true; count = count + 1 end end
  for n, word in ipairs(words) do
    if says((metadata or ''):lower(), word, 2) or says((session or ''):lower(), word, 1) then note(n) end
  end
  local all = call('HGETALL', P .. 't:' .. id)
  for n = 1, hides and #all or 0, 2 do
    if all[n]:sub(-2) == ':h' then hidden[all[n]:sub(1, -3)] = true end
  end
  for n = 1, #all, 2 do
    if all[n]:sub(-2) == ':r' and not hidden[all[n]:sub(1, -3)] then
      local text, any = all[n + 1]:lower(), false
      if text:find('\\167removed', 1, true) then noted = 1 end
      for w, word in ipairs(words) do
        if says(text, word, 1) then note(w); any = true end
      end
      if any then records[#records + 1] = all[n + 1] end
    end
  end
  if count == #words then found[#found + 1] = {call('HGETALL', c), records, noted} end
end
return found
""")


async def search(line: RedisLine, tenant: str, words: Sequence[str], after: str | None, limit: int) -> list[Hit]:
    """A `Store.search`."""
    place = int(await line.call(START, tenant, after or ""))
    if place < 0:
        raise NotFound("the conversation that the list is to go on after is not there")
    asked = msgspec.json.encode([[(form, in_json(form)) for form in spellings(word)] for word in words])
    hits: dict[str, Hit] = {}  # while one looks, another may move up: it is met twice
    while len(hits) < limit:
        looked, *proposed = await line.call(PROPOSE, tenant, place, BLOCK, asked)
        for fields, records, noted in proposed:
            found = await _decide(line, conversation_from_fields(fields), records, words, noted=bool(noted))
            if found is not None:
                hits.setdefault(found.conversation.id, found)
        if looked < BLOCK:
            break
        place += BLOCK
    return list(hits.values())[:limit]


async def _decide(
    line: RedisLine, conversation: Conversation | None, records: Sequence[bytes], words: Sequence[str], *, noted: bool
) -> Hit | None:
    if conversation is None:
        return None
    if noted and conversation.leaf is not None:
        turns = turns_from_records(*await line.call(TURNS, conversation.id))
        chain = chain_from_records(await line.call(CHAIN, conversation.leaf))
        return hit(conversation, texts_left(turns, chain), words)
    turns = sorted(map(turn_from_record, records), key=lambda turn: turn.created)
    return hit(conversation, [text for turn in turns for text in said(turn.messages, turn.answer)], words)
