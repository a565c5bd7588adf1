// The scripts of a queue of several keys: copies of those in integrations/protocol.

import { createHash } from "node:crypto";

export const ROUTED = `-- Runs a command on KEYS[1], a key of a queue with \`keys\`, if the client is up to date. KEYS[2] has the highest generation
-- that any client has used there: ARGV[1] is the client's. ARGV[2]: \`always\`, or \`if there\` is the id ARGV[3].
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
if latest > tonumber(ARGV[1]) then return {'stale'} end
if latest < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
if ARGV[2] == 'if there' and redis.call('DEHYDRATOR.PTTL', KEYS[1], ARGV[3]) == -2 then return {'elsewhere'} end
local reply = redis.pcall(ARGV[4], KEYS[1], unpack(ARGV, 5))
if type(reply) == 'table' and reply.err then return reply end
return {'done', reply}
`;

export const ROUTED_SHA = createHash("sha1").update(ROUTED).digest("hex");

export const CHANGE = `-- Replaces the directory KEYS[1] if it still is ARGV[1]; an empty one is missing.
if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2]) end
`;

/** When a command for an id runs in a key. */
export type When = "always" | "if there";
