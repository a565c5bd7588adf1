package dehydrator

// The scripts are those of the packages for Python and Node.

// buryScript turns a task that is still held into a dead letter, with the reason and its group; it drops excess or old dead
// letters.
const buryScript = `
local kind = redis.call('TYPE', KEYS[2]).ok
if kind ~= 'none' and kind ~= 'stream' then
    return redis.error_reply('WRONGTYPE the dead letters at ' .. KEYS[2] .. ' are no stream')
end
local told = redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[2], 'FULL') or {}
if redis.call('DEHYDRATOR.SETTLE', KEYS[1], ARGV[1], ARGV[2])[1] == 0 then return 0 end
local letter = {'id', ARGV[2], 'element', ARGV[3], 'deliveries', ARGV[4], 'reason', ARGV[5]}
for i = 1, #told, 2 do
    if told[i] == 'group' and told[i + 1] then letter[9], letter[10] = 'group', told[i + 1] end
end
redis.call('XADD', KEYS[2], '*', unpack(letter))
local least = ARGV[7]
if ARGV[6] == 'MINID' then least = math.max(0, redis.call('TIME')[1] * 1000 - least) end
if least then redis.call('XTRIM', KEYS[2], ARGV[6], least) end
return 1
`

// retryScript gives a task that is still held back, with another element.
const retryScript = `
local released = redis.call('DEHYDRATOR.RELEASE', KEYS[1], ARGV[1], ARGV[2], ARGV[3])
if released[1] == 1 then redis.pcall('DEHYDRATOR.UPDATE', KEYS[1], ARGV[3], ARGV[4]) end
return released
`

// reviveScript puts dead letters back, due at once, with a new delivery count. One whose id is in the queue stays. NX would
// refuse an id that the server remembers (LIMIT REMEMBER), such as those that buryScript settled.
const reviveScript = `
local revived = 0
local dead = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[1])
for _, entry in ipairs(dead) do
    local letter = {}
    for i = 1, #entry[2], 2 do letter[entry[2][i]] = entry[2][i + 1] end
    if not redis.call('DEHYDRATOR.LOOK', KEYS[1], letter.id) then
        redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, letter.element, letter.id, 'REPLACE', 'GROUP', letter.group or '')
        redis.call('XDEL', KEYS[2], entry[1])
        revived = revived + 1
    end
end
return revived
`
