# frozen_string_literal: true

require "digest/sha1"

module Sidekiq
  module Dehydrator
    # Atomic operations, even if a process is killed. A script and its effects are one transaction, also in the
    # append-only file and for replicas.
    class Script
      def initialize(text)
        @text = text
        @sha = Digest::SHA1.hexdigest(text)
      end

      def call(conn, keys, argv)
        conn.call("EVALSHA", @sha, keys.size, *keys, *argv)
      rescue Errors::COMMAND => error
        raise unless error.message.start_with?("NOSCRIPT")

        conn.call("EVAL", @text, keys.size, *keys, *argv)
      end
    end

    module Scripts
      # Moves jobs of some queues into their dehydrators, all or none.
      # KEYS: Sidekiq's set of queues, ours, then for each queue its dehydrator and its list. ARGV: for each queue its
      # name, and the number of its words, then for each job its ttl, its element and its id.
      # Replies 1 for each job, or 0 if its id exists.
      PUT = Script.new(<<~LUA)
        local replies, put, word = {}, {}, 1
        for i = 3, #KEYS, 2 do
          redis.call('DEHYDRATOR.ONDUE', KEYS[i], 'LIST', KEYS[i + 1], 'LEFT')
        end
        for i = 3, #KEYS, 2 do
          local first, last = word + 2, word + 1 + ARGV[word + 1]
          redis.call('SADD', KEYS[1], ARGV[word])
          redis.call('SADD', KEYS[2], ARGV[word])
          -- In parts, for Lua's stack holds 8,000 words.
          for from = first, last, 3000 do
            local words = {unpack(ARGV, from, math.min(from + 2999, last))}
            words[#words + 1] = 'NX'
            for n, reply in ipairs(redis.call('DEHYDRATOR.MPUSH', KEYS[i], unpack(words))) do
              if reply == 1 then
                put[#put + 1] = {KEYS[i], words[3 * n]}
              elseif reply < 0 then
                put.full = KEYS[i]
              end
              replies[#replies + 1] = reply
            end
          end
          word = last + 1
        end
        if put.full then
          for _, job in ipairs(put) do
            redis.call('DEHYDRATOR.REM', job[1], job[2])
          end
          return redis.error_reply('FULL ' .. put.full .. ' holds as many jobs as LIMIT allows')
        end
        return replies
      LUA

      # Moves jobs from a sorted set into a dehydrator. Jobs that the dehydrator refuses, or whose key has another type,
      # stay, unless they are due: then they are pushed here.
      # KEYS: the sorted set, the dehydrator, the list, Sidekiq's set of queues, ours. ARGV: the queue's name, then for
      # each job: its member, its score as it was read, its time in unix ms, the element, its id, and another id.
      # Replies how many were moved, how many were refused, and why.
      TAKE = Script.new(<<~LUA)
        local moved, refused, why = 0, 0, ''
        local time = redis.call('TIME')
        local now = time[1] * 1000 + time[2] / 1000
        redis.call('SADD', KEYS[4], ARGV[1])
        local rule = redis.pcall('DEHYDRATOR.ONDUE', KEYS[2], 'LIST', KEYS[3], 'LEFT')
        if not rule.err then
          redis.call('SADD', KEYS[5], ARGV[1])
        end
        for i = 2, #ARGV, 6 do
          local member, score, at, element = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
          local there = redis.call('ZSCORE', KEYS[1], member)
          if there and tonumber(there) == tonumber(score) then
            local reply = rule
            if not rule.err then
              reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[2], 0, element, ARGV[i + 4], 'NX', 'AT', at)
            end
            if not reply then
              reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[2], 0, element, ARGV[i + 5], 'REPLACE', 'AT', at)
            end
            if reply.err then
              why = reply.err
              if tonumber(at) <= now then
                reply = redis.pcall('LPUSH', KEYS[3], element)
              end
            end
            if type(reply) ~= 'table' or not reply.err then
              redis.call('ZREM', KEYS[1], member)
              moved = moved + 1
            else
              refused = refused + 1
            end
          end
        end
        return {moved, refused, why}
      LUA

      # Moves jobs from a dehydrator into a sorted set, and deletes the dehydrator when it is empty.
      # KEYS: the dehydrator, the sorted set. ARGV: how many at once. Replies how many were moved.
      LEAVE = Script.new(<<~LUA)
        local rows = redis.call('DEHYDRATOR.RANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1], 'WITHELEMENTS')[2]
        for _, row in ipairs(rows) do
          redis.call('ZADD', KEYS[2], string.format('%.3f', row[2] / 1000), row[6])
          redis.call('DEHYDRATOR.REM', KEYS[1], row[1])
        end
        if redis.call('DEHYDRATOR.LEN', KEYS[1]) == 0 then
          redis.call('DEL', KEYS[1])
        end
        return #rows
      LUA

      # Sets another time and element for a job. KEYS: the dehydrator. ARGV: the id, the element, the delay in ms.
      # Replies 0 if it does not wait any more.
      MOVE = Script.new(<<~LUA)
        if not redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1]) then
          return 0
        end
        redis.call('DEHYDRATOR.UPDATE', KEYS[1], ARGV[1], ARGV[2])
        return redis.call('DEHYDRATOR.TOUCH', KEYS[1], ARGV[3], ARGV[1])
      LUA

      # Moves a job to the dead set. KEYS: the dehydrator, the sorted set. ARGV: the id, the score. Replies the element,
      # or nil.
      KILL = Script.new(<<~LUA)
        local element = redis.call('DEHYDRATOR.PULL', KEYS[1], ARGV[1])
        if element then
          redis.call('ZADD', KEYS[2], ARGV[2], element)
        end
        return element
      LUA

      # Moves jobs from lists into a dehydrator, until one is refused: it stays.
      # KEYS: the list of jobs in transit, Sidekiq's list, the dehydrator. ARGV: how many at once. Replies how many were
      # moved, and why one was refused.
      DRAIN = Script.new(<<~LUA)
        local moved, time = 0, redis.call('TIME')
        for list = 1, 2 do
          local job = redis.call('LINDEX', KEYS[list], -1)
          while job and moved < tonumber(ARGV[1]) do
            local ok, fields = pcall(cjson.decode, job)
            local id = ok and type(fields) == 'table' and fields.jid
            if type(id) ~= 'string' then
              id = redis.sha1hex(job)
            end
            local reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[3], 0, job, id, 'NX')
            if not reply then
              id = id .. ':' .. time[1] .. '.' .. time[2] .. '-' .. moved
              reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[3], 0, job, id, 'NX')
            end
            if reply and reply.err then
              return {moved, reply.err}
            end
            redis.call('RPOP', KEYS[list])
            moved = moved + 1
            job = redis.call('LINDEX', KEYS[list], -1)
          end
        end
        return {moved}
      LUA

      # Moves jobs from a dehydrator into a list, the oldest first, and deletes the dehydrator when it is empty.
      # KEYS: the list of jobs in transit, Sidekiq's list, the dehydrator, Sidekiq's set of queues. ARGV: how many at once,
      # the queue's name. Replies how many were moved.
      FILL = Script.new(<<~LUA)
        while redis.call('LMOVE', KEYS[1], KEYS[2], 'LEFT', 'RIGHT') do
        end
        local rows = redis.call('DEHYDRATOR.RANGE', KEYS[3], '-', '+', 'COUNT', ARGV[1], 'WITHELEMENTS')[2]
        for _, row in ipairs(rows) do
          redis.call('LPUSH', KEYS[2], row[6])
          redis.call('DEHYDRATOR.REM', KEYS[3], row[1])
        end
        if #rows > 0 then
          redis.call('SADD', KEYS[4], ARGV[2])
        end
        if redis.call('DEHYDRATOR.LEN', KEYS[3]) == 0 then
          redis.call('DEL', KEYS[3])
        end
        return #rows
      LUA

      # Gives leased jobs back, uncounted, each where it was among the others.
      # KEYS: the dehydrator. ARGV: for each job its token, its id, and when it was pushed, in unix ms.
      GIVE_BACK = Script.new(<<~LUA)
        for i = 1, #ARGV, 3 do
          local given = redis.call('DEHYDRATOR.RELEASE', KEYS[1], 0, ARGV[i], ARGV[i + 1], 'UNCOUNTED')[1]
          if given == 1 and ARGV[i + 2] ~= '0' then
            redis.call('DEHYDRATOR.TOUCH', KEYS[1], 0, 'LT', 'AT', ARGV[i + 2], ARGV[i + 1])
          end
        end
      LUA

      # Moves a leased job to the dead set. KEYS: the dehydrator, the sorted set. ARGV: its token, its id, the score, the
      # payload. Replies 1, or 0 if somebody else has it.
      BURY = Script.new(<<~LUA)
        local held = redis.call('DEHYDRATOR.SETTLE', KEYS[1], ARGV[1], ARGV[2])[1]
        if held == 1 then
          redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
        end
        return held
      LUA

      # Removes a job that waits. KEYS: the dehydrator. ARGV: its payload, and the ids that it may have. Replies 1, or 0.
      DELETE = Script.new(<<~LUA)
        for i = 2, #ARGV do
          local found = redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[i], 'FULL')
          if found and found[2] == ARGV[1] and found[10] == 0 then
            return redis.call('DEHYDRATOR.REM', KEYS[1], ARGV[i])
          end
        end
        return 0
      LUA

      # Removes a lock. KEYS: the locks. ARGV: its id, and the job that has it.
      UNLOCK = Script.new(<<~LUA)
        if redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1]) == ARGV[2] then
          redis.call('DEHYDRATOR.REM', KEYS[1], ARGV[1])
        end
      LUA

      # Removes the first jobs that wait. KEYS: the dehydrator. ARGV: how many at most. Replies how many.
      CLEAR = Script.new(<<~LUA)
        local removed = 0
        local rows = redis.call('DEHYDRATOR.RANGE', KEYS[1], '-', '+', 'COUNT', ARGV[1])[2]
        for _, row in ipairs(rows) do
          if row[5] == 0 then
            removed = removed + redis.call('DEHYDRATOR.REM', KEYS[1], row[1])
          end
        end
        return removed
      LUA

      # Replies the server's time and the element of a schedule. KEYS: the schedules. ARGV: its name.
      LOOK = Script.new("return {redis.call('TIME'), redis.call('DEHYDRATOR.LOOK', KEYS[1], ARGV[1])}")

      # Stores a schedule, or removes it, if it is unchanged and held under the token, and pushes its job.
      # KEYS: the schedules, Sidekiq's set of queues, and with a job its list. ARGV: the name, the token (empty: it is
      # not held), the element as it was read (empty: there was none), the new one (empty: remove it), its deadline in
      # unix ms, and with a job its queue and payload. Replies 1, or 0 if somebody else changed or holds it.
      STORE = Script.new(<<~LUA)
        local name, token, before, after, deadline, queue, job = unpack(ARGV)
        if (redis.call('DEHYDRATOR.LOOK', KEYS[1], name) or '') ~= before then
          return 0
        end
        -- If a command below fails, another process gets it after a second.
        if token ~= '' and redis.call('DEHYDRATOR.RELEASE', KEYS[1], 1000, token, name)[1] ~= 1 then
          return 0
        end
        if job then
          redis.call('LPUSH', KEYS[3], job)
          redis.call('SADD', KEYS[2], queue)
        end
        local reply
        if after == '' then
          reply = redis.call('DEHYDRATOR.REM', KEYS[1], name)
        else
          reply = redis.pcall('DEHYDRATOR.PUSH', KEYS[1], 0, after, name, 'REPLACE', 'AT', deadline)
        end
        if type(reply) == 'table' and reply.err then
          if job then
            redis.call('LPOP', KEYS[3])
          end
          return reply
        end
        return 1
      LUA
    end
  end
end
