"""The Lua scripts of the Redis store. Each is one transaction: it checks all first and writes then.

Keys, all below one prefix:

format              the format version
n                   a counter; orders turns by their arrival
c:ID                hash: a conversation; `turns` and `hidden` count its turns
t:ID                hash: its turns: TURN:p the parent, TURN:r the record, TURN:d the digest, TURN:h when hidden
turn:TURN           the conversation of a turn
s:TENANT SESSION    the conversation of a session's name
d:TENANT DIGEST     sorted set: turns of a digest, by `n`
named:TENANT        sorted set: conversations with a session, by their creation
used:TENANT         sorted set: the same, by their last use
idle                sorted set: conversations without one, by their last use
l:HOLD, w:HOLD      who holds a name alone, and who is next; both lapse
f:HOLD              the last fence that was given for it
k:NAME              sorted set: who keeps a name, by when that lapses (server's milliseconds)
x:NAME              who is about to remove it; lapses

Tenants carry their length, so that no two names meet. A server with `maxmemory` must not evict (`noeviction`): what
expires is deleted whole by `EXPIRE`, after a look at who uses it.
"""

from __future__ import annotations

import hashlib

import msgspec

PRELUDE = """
local P = 'chatserve:'
local call = redis.call
local function of(tenant, name) return #tenant .. ' ' .. tenant .. ' ' .. name end
local function now() local t = call('TIME'); return t[1] * 1000 + math.floor(t[2] / 1000) end
local function kept(name)
  call('ZREMRANGEBYSCORE', P .. 'k:' .. name, '-inf', now())
  return call('ZCARD', P .. 'k:' .. name) > 0
end
local function drop(id)
  local c, t = P .. 'c:' .. id, P .. 't:' .. id
  local tenant, session = unpack(call('HMGET', c, 'tenant', 'session'))
  for _, field in ipairs(call('HKEYS', t)) do
    if field:sub(-2) == ':d' then
      local turn = field:sub(1, -3)
      call('ZREM', P .. 'd:' .. of(tenant, call('HGET', t, field)), turn)
      call('DEL', P .. 'turn:' .. turn)
    end
  end
  if session then call('DEL', P .. 's:' .. of(tenant, session)) end
  call('ZREM', P .. 'named:' .. tenant, id)
  call('ZREM', P .. 'used:' .. tenant, id)
  call('ZREM', P .. 'idle', id)
  call('DEL', c, t)
end
local function listed(list, after, limit)
  local first = 0
  if after ~= '' then
    local rank = call('ZREVRANK', list, after)
    if not rank then return false end
    first = rank + 1
  end
  return call('ZREVRANGE', list, first, first + limit - 1)
end
local function place(c, id, tenant, session)
  local used = call('HGET', c, 'used')
  call('ZADD', session and P .. 'used:' .. tenant or P .. 'idle', used, id)
end
local function plant(id, tenant, turn, parent, digest, record)
  call('HSET', P .. 't:' .. id, turn .. ':p', parent, turn .. ':r', record, turn .. ':d', digest)
  call('HINCRBY', P .. 'c:' .. id, 'turns', 1)
  call('SET', P .. 'turn:' .. turn, id)
  call('ZADD', P .. 'd:' .. of(tenant, digest), call('INCR', P .. 'n'), turn)
end
"""


class Script(msgspec.Struct, frozen=True):
    """Lua text and the name that the server knows it by."""

    text: str
    sha: str


def script(body: str) -> Script:
    text = PRELUDE + body
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


FORMAT = script("""
-- ARGV: the version of a new store -> the version of this one
call('SET', P .. 'format', ARGV[1], 'NX')
return call('GET', P .. 'format')
""")

CONVERSATION = script("""
-- ARGV: conversation -> fields and values, none when there is none
return call('HGETALL', P .. 'c:' .. ARGV[1])
""")

SESSION = script("""
-- ARGV: tenant, session
local id = call('GET', P .. 's:' .. of(ARGV[1], ARGV[2]))
return id and call('HGETALL', P .. 'c:' .. id) or {}
""")

CONVERSATIONS = script("""
-- ARGV: 'named' or 'used', tenant, after or '', limit -> conversations, latest first; false: `after` is not there
local ids, found = listed(P .. ARGV[1] .. ':' .. ARGV[2], ARGV[3], ARGV[4]), {}
if not ids then return false end
for _, id in ipairs(ids) do found[#found + 1] = call('HGETALL', P .. 'c:' .. id) end
return found
""")

TURNS = script("""
-- ARGV: conversation -> its turns' records, and the hidden turns
local records, hidden = {}, {}
local all = call('HGETALL', P .. 't:' .. ARGV[1])
for n = 1, #all, 2 do
  local kind = all[n]:sub(-2)
  if kind == ':r' then records[#records + 1] = all[n + 1] end
  if kind == ':h' then hidden[#hidden + 1] = all[n]:sub(1, -3) end
end
return {records, hidden}
""")

TURN = script("""
-- ARGV: tenant, turn -> its record or false
local id = call('GET', P .. 'turn:' .. ARGV[2])
if not id or call('HGET', P .. 'c:' .. id, 'tenant') ~= ARGV[1] then return false end
local record, hidden = unpack(call('HMGET', P .. 't:' .. id, ARGV[2] .. ':r', ARGV[2] .. ':h'))
return not hidden and record
""")

WALK = """
local function chain(turn)
  local id = call('GET', P .. 'turn:' .. turn)
  local records, t = {}, P .. 't:' .. (id or '')
  local most = call('HLEN', t)
  while turn and turn ~= '' and #records < most do
    local parent, record = unpack(call('HMGET', t, turn .. ':p', turn .. ':r'))
    if not record then break end
    records[#records + 1] = record
    turn = parent
  end
  return records
end
"""

CHAIN = script(WALK + "return chain(ARGV[1])  -- a turn -> the records from it to its root")

OPENED = script(
    WALK
    + """
-- ARGV: tenant, session -> its conversation's fields and values, and the records from its leaf to its root
local id = call('GET', P .. 's:' .. of(ARGV[1], ARGV[2]))
if not id then return {{}, {}} end
local leaf = call('HGET', P .. 'c:' .. id, 'leaf')
return {call('HGETALL', P .. 'c:' .. id), leaf and chain(leaf) or {}}
"""
)

FIND = script(
    WALK
    + """
-- ARGV: tenant, digests -> the records of the newest turn of the first digest that is known
for n = 2, #ARGV do
  for _, turn in ipairs(call('ZREVRANGE', P .. 'd:' .. of(ARGV[1], ARGV[n]), 0, 0)) do return chain(turn) end
end
return {}
"""
)

SAVE = script("""
-- ARGV -> 'saved', 'same', or why not
local id, tenant, session, created, used, metadata = unpack(ARGV, 1, 6)
local turn, parent, digest, record, ended, advances, fence, hold, format, leaf = unpack(ARGV, 7, 16)
local c, t, s = P .. 'c:' .. id, P .. 't:' .. id, P .. 's:' .. of(tenant, session)
local stored = call('HGET', t, turn .. ':r')
if stored then return stored == record and 'same' or 'other' end
if call('EXISTS', P .. 'turn:' .. turn) == 1 then return 'other' end
if parent == turn then return 'refused' end
if parent ~= '' and call('HEXISTS', t, parent .. ':r') == 0 then return 'gone' end
local new, named = parent == '' and call('EXISTS', c) == 0, hold ~= ''
if new and leaf ~= '' then return 'gone' end
if new and named and call('EXISTS', s) == 1 then return 'refused' end
if advances == '1' then
  local last = call('GET', P .. 'f:' .. hold)
  if fence ~= '0' and last and last ~= fence then return 'fenced' end
  if (call('HGET', c, 'leaf') or '') ~= leaf then return 'moved' end
end

call('SET', P .. 'format', format, 'NX')
if new then
  call('HSET', c, 'id', id, 'tenant', tenant, 'created', created, 'used', used, 'metadata', metadata)
  if named then
    call('HSET', c, 'session', session)
    call('SET', s, id)
    call('ZADD', P .. 'named:' .. tenant, created, id)
  end
end
plant(id, tenant, turn, parent, digest, record)
if tonumber(ended) > tonumber(call('HGET', c, 'used')) then call('HSET', c, 'used', ended) end
place(c, id, tenant, call('HGET', c, 'session'))
if advances == '1' then call('HSET', c, 'leaf', turn) end
return 'saved'
""")

CREATE = script("""
-- ARGV: a conversation that has a session, the format, and its turns, each after its parent -> 'saved', 'same', or why
-- not
local id, tenant, session, created, used, metadata, leaf, format = unpack(ARGV, 1, 8)
local c, s = P .. 'c:' .. id, P .. 's:' .. of(tenant, session)
if call('EXISTS', c) == 1 then
  local owner, last = unpack(call('HMGET', c, 'tenant', 'leaf'))
  return owner == tenant and last == leaf and 'same' or 'refused'
end
local known = {}
for n = 9, #ARGV, 4 do
  local turn, parent = ARGV[n], ARGV[n + 1]
  if known[turn] or call('EXISTS', P .. 'turn:' .. turn) == 1 then return 'refused' end
  if parent ~= '' and not known[parent] then return 'refused' end
  known[turn] = true
end
if call('EXISTS', s) == 1 or not known[leaf] then return 'refused' end

call('SET', P .. 'format', format, 'NX')
call('HSET', c, 'id', id, 'tenant', tenant, 'created', created, 'used', used, 'metadata', metadata)
call('HSET', c, 'session', session, 'leaf', leaf)
call('SET', s, id)
call('ZADD', P .. 'named:' .. tenant, created, id)
place(c, id, tenant, session)
for n = 9, #ARGV, 4 do plant(id, tenant, unpack(ARGV, n, n + 3)) end
return 'saved'
""")

UPDATE = script("""
-- ARGV: tenant, conversation, metadata -> the conversation, nothing when there is none
local c = P .. 'c:' .. ARGV[2]
if call('HGET', c, 'tenant') ~= ARGV[1] then return {} end
call('HSET', c, 'metadata', ARGV[3])
return call('HGETALL', c)
""")

DELETE = script("""
-- ARGV: tenant, conversation -> how many
if call('HGET', P .. 'c:' .. ARGV[2], 'tenant') ~= ARGV[1] then return 0 end
drop(ARGV[2])
return 1
""")

HIDE = script("""
-- ARGV: tenant, turn -> how many
local id = call('GET', P .. 'turn:' .. ARGV[2])
if not id then return 0 end
local c, t = P .. 'c:' .. id, P .. 't:' .. id
if call('HGET', c, 'tenant') ~= ARGV[1] or call('HSETNX', t, ARGV[2] .. ':h', 1) == 0 then return 0 end
if call('HINCRBY', c, 'hidden', 1) == tonumber(call('HGET', c, 'turns')) and not call('HGET', c, 'session') then
  call('HSET', c, 'used', 0)
  call('ZADD', P .. 'idle', 0, id)
end
return 1
""")

IDLE = script("""
-- ARGV: before, limit -> conversations, the longest idle first
return call('ZRANGEBYSCORE', P .. 'idle', '-inf', '(' .. ARGV[1], 'LIMIT', 0, ARGV[2])
""")

EXPIRE = script("""
-- ARGV: before, conversations -> how many; one that somebody keeps by now is passed by
local count = 0
for n = 2, #ARGV do
  local used = call('ZSCORE', P .. 'idle', ARGV[n])
  if used and tonumber(used) < tonumber(ARGV[1]) and not kept(ARGV[n]) then
    drop(ARGV[n])
    count = count + 1
  end
end
return count
""")

LIST_BY_USE = script("""
-- Format 2: `used`, made from what is there.
if call('GET', P .. 'format') ~= '1' then return 0 end
local named = P .. 'named:'
for _, list in ipairs(call('KEYS', named .. '*')) do
  for _, id in ipairs(call('ZRANGE', list, 0, -1)) do
    local used = call('HGET', P .. 'c:' .. id, 'used')
    if used then call('ZADD', P .. 'used:' .. list:sub(#named + 1), used, id) end
  end
end
call('SET', P .. 'format', 2)
return 1
""")
