"""The Lua scripts by which the processes of one Redis server hold names; their keys are told in `redis_scripts`."""

from __future__ import annotations

from typing import Final

from sessions.redis_scripts import script

FENCE_MS: Final = 86_400_000
"""A fence outlives any turn."""

HELD = script("""
-- ARGV: names -> those that somebody holds alone
local held = {}
for _, name in ipairs(ARGV) do
  if call('EXISTS', P .. 'l:' .. name) == 1 then held[#held + 1] = name end
end
return held
""")

TAKE = script(f"""
-- ARGV: hold, token, ms -> the fence, or 0 while somebody else has it; whoever came first is next
local l, w, f = P .. 'l:' .. ARGV[1], P .. 'w:' .. ARGV[1], P .. 'f:' .. ARGV[1]
local holder, waiter = call('GET', l), call('GET', w)
if holder == ARGV[2] then return tonumber(call('GET', f) or 0) end
if waiter and waiter ~= ARGV[2] then return 0 end
if holder then
  call('SET', w, ARGV[2], 'PX', 2000)
  return 0
end
call('DEL', w)
call('SET', l, ARGV[2], 'PX', ARGV[3])
local fence = call('INCR', f)
call('PEXPIRE', f, {FENCE_MS})
return fence
""")

LEAVE = script("""
-- ARGV: hold, token: give up what is held, or waited for
for _, key in ipairs({P .. 'l:' .. ARGV[1], P .. 'w:' .. ARGV[1]}) do
  if call('GET', key) == ARGV[2] then call('DEL', key) end
end
return 1
""")

RENEW = script("""
-- ARGV: hold, token, ms, fence: also what a restarted server forgot, unless somebody has come since
local l, f = P .. 'l:' .. ARGV[1], P .. 'f:' .. ARGV[1]
local holder, last = call('GET', l), call('GET', f)
if holder and holder ~= ARGV[2] then return 0 end
if last and last ~= ARGV[4] then return 0 end
call('SET', l, ARGV[2], 'PX', ARGV[3])
return 1
""")

KEEP = script("""
-- ARGV: name, token, ms -> 0 while somebody is about to remove it
if call('EXISTS', P .. 'x:' .. ARGV[1]) == 1 then return 0 end
call('ZADD', P .. 'k:' .. ARGV[1], now() + ARGV[3], ARGV[2])
call('PEXPIRE', P .. 'k:' .. ARGV[1], 2 * ARGV[3])
return 1
""")

DROP = script("""
-- ARGV: name, token: keep it no longer
return call('ZREM', P .. 'k:' .. ARGV[1], ARGV[2])
""")

CLAIM = script("""
-- ARGV: token, ms, names -> those that nobody keeps, which nobody can keep now
local free = {}
for n = 3, #ARGV do
  if not kept(ARGV[n]) and call('SET', P .. 'x:' .. ARGV[n], ARGV[1], 'NX', 'PX', ARGV[2]) then
    free[#free + 1] = ARGV[n]
  end
end
return free
""")

DISCLAIM = script("""
-- ARGV: token, names
for n = 2, #ARGV do
  local x = P .. 'x:' .. ARGV[n]
  if call('GET', x) == ARGV[1] then call('DEL', x) end
end
return 1
""")
