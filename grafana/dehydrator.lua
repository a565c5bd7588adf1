-- For redis_exporter's option -script: the numbers of `INFO dehydrator`, so that each becomes a metric,
-- redis_script_values{key="dehydrator_elements"} and so on. What the module tells one day, this passes on. The version and
-- the commit are no numbers, even if the commit looks like one.
--
-- The exporter wants names and values in turn, as strings.

-- The queues by which workers are scaled, and which have a row each in the dashboard: keys of database 0, or of that which
-- -redis.addr names, as { 'jobs', 'mail' }. Each becomes length:jobs, waiting:jobs, leased:jobs and oldest:jobs.
local queues = {}

local values = {}
for name, value in string.gmatch(redis.call('INFO', 'dehydrator'), '(dehydrator_[%w_]+):(%d+)\r\n') do
    if name ~= 'dehydrator_git_sha1' then
        values[#values + 1] = name
        values[#values + 1] = value
    end
end

-- The dehydrators that are overdue the longest: late:database:key, in seconds. A module before 0.1.0 has no such command.
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

-- A key that is missing is an empty queue. Of one of another node, or of another type, nothing is told, and nothing by a
-- replica, on which nothing is late: no number is better than a wrong 0, by which all workers would be stopped.
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
        }) do
            values[#values + 1] = name .. ':' .. queue
            values[#values + 1] = string.format('%.3f', value)
        end
    end
end
return values
