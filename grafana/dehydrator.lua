-- For redis_exporter's option -script: the numbers of `INFO dehydrator`, so that each becomes a metric,
-- redis_script_values{key="dehydrator_elements"} and so on. What the module tells one day, this passes on. The version and
-- the commit are no numbers, even if the commit looks like one.
--
-- The exporter wants names and values in turn, as strings.
local values = {}
for name, value in string.gmatch(redis.call('INFO', 'dehydrator'), '(dehydrator_[%w_]+):(%d+)\r\n') do
    if name ~= 'dehydrator_git_sha1' then
        values[#values + 1] = name
        values[#values + 1] = value
    end
end
return values
