-- Replaces the directory KEYS[1] if it still is ARGV[1]; an empty one is missing.
if (redis.call('GET', KEYS[1]) or '') == ARGV[1] then return redis.call('SET', KEYS[1], ARGV[2]) end
