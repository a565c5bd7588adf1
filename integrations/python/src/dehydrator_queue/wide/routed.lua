-- Runs a command on KEYS[1], a key of a queue with `keys`, if the client is up to date. KEYS[2] has the highest generation
-- that any client has used there: ARGV[1] is the client's. ARGV[2]: `always`, or `if there` is the id ARGV[3].
local latest = tonumber(redis.call('GET', KEYS[2]) or 0)
if latest > tonumber(ARGV[1]) then return {'stale'} end
if latest < tonumber(ARGV[1]) then redis.call('SET', KEYS[2], ARGV[1]) end
if ARGV[2] == 'if there' and redis.call('DEHYDRATOR.PTTL', KEYS[1], ARGV[3]) == -2 then return {'elsewhere'} end
local reply = redis.pcall(ARGV[4], KEYS[1], unpack(ARGV, 5))
if type(reply) == 'table' and reply.err then return reply end
return {'done', reply}
