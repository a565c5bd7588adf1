-- For the option -script of redis_exporter: turns each number of `INFO dehydrator` into a metric, such as
-- redis_script_values{key="dehydrator_elements"}. Fields that later versions add are included. The version and the commit are
-- not numbers, even if the commit looks like one.
--
-- The exporter expects alternating names and values, as strings.

-- The queues for autoscaling, with a row each in the dashboard: keys of database 0, or of the database of -redis.addr, for
-- example { 'jobs', 'mail' }. Each becomes length:jobs, waiting:jobs, leased:jobs, oldest:jobs, oldest_held:jobs and
-- groups:jobs. The groups are only counted: a series for each name could be any number of series.
local queues = {}

local values = {}
for name, value in string.gmatch(redis.call('INFO', 'dehydrator'), '(dehydrator_[%w_]+):(%d+)\r\n') do
    if name ~= 'dehydrator_git_sha1' then
        values[#values + 1] = name
        values[#values + 1] = value
    end
end

-- The dehydrators that are overdue the longest: late:database:key, in seconds. Modules before 0.1.0 lack this command.
local seen = {}
local rows = redis.pcall('DEHYDRATOR.LATE', 'COUNT', '10')
for _, row in ipairs(rows.err and {} or rows) do
    if row[1] then
        local name = 'late:' .. row[2] .. ':' .. string.gsub(row[1], '[^ -~]', '?')
        if not seen[name] then
            seen[name] = true
            values[#values + 1] = name
            values[#values + 1] = string.format('%d', row[3] / 1000)
        end
    end
end

-- A missing key is an empty queue. For a key on another node or of another type, and on a replica (where nothing is late),
-- there are no metrics: no number is better than a wrong 0, which would stop all workers.
local primary = string.find(redis.call('INFO', 'replication'), 'role:master', 1, true)
for _, queue in ipairs(primary and queues or {}) do
    local told = redis.pcall('DEHYDRATOR.INFO', queue)
    local field = {}
    for at = 1, told.err and 0 or #told, 2 do
        field[told[at]] = told[at + 1]
    end
    if field['overdue'] then
        for name, value in pairs({
            length = field['length'],
            waiting = field['overdue'],
            leased = field['leased'],
            oldest = (field['oldest-due-ms'] or 0) / 1000,
            oldest_held = (field['oldest-held-ms'] or 0) / 1000,
            -- Older modules lack it, and have no metric then.
            groups = field['groups'],
        }) do
            values[#values + 1] = name .. ':' .. queue
            values[#values + 1] = string.format('%.3f', value)
        end
    end
end
return values
