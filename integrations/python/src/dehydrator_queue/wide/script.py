"""The scripts of a queue of several keys. The package for Node has the same."""

from __future__ import annotations

import hashlib

#: Runs a command on KEYS[1] if the client is up to date. KEYS[2] holds the highest generation that any client has
#: used there: ARGV[1] is the client's. ARGV[2]: `always`, or only `if there` is the id ARGV[3], or `unless there`.
ROUTED = """
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
if latest > tonumber(ARGV[1]) then return {'stale'} end
if latest < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
if ARGV[2] ~= 'always' then
    local there = redis.call('DEHYDRATOR.PTTL', KEYS[1], ARGV[3]) ~= -2
    if ARGV[2] == 'if there' and not there then return {'elsewhere'} end
    if ARGV[2] == 'unless there' and there then return {'done', false} end
end
local reply = redis.pcall(ARGV[4], KEYS[1], unpack(ARGV, 5))
if type(reply) == 'table' and reply.err then return reply end
return {'done', reply}
"""

ROUTED_SHA = hashlib.sha1(ROUTED.encode(), usedforsecurity=False).hexdigest()

#: Precedes a script, which does nothing if the client is outdated: the last key and the last argument are as above.
GUARD = """
local used, own = table.remove(KEYS), tonumber(table.remove(ARGV))
local latest = tonumber(redis.call('GET', used) or 0)
if latest > own then return {-2} end
if latest < own then redis.call('SET', used, own) end
"""

#: Replaces the directory KEYS[1] if it still is ARGV[1]; an empty one is missing.
CHANGE = "if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2]) end"
