# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Takes over the jobs in Sidekiq's sorted sets: at the start, and then instead of Sidekiq's poller, because a
  # process without this gem, or a gem that writes there itself, may add to them at any time.
  class Takeover
    # The number of jobs per batch.
    PAGE = 200

    # How many of the jobs that stay are remembered, so that each is logged once.
    TOLD = 1000
    @told = {}
    class << self
      attr_reader :told

      # Members and scores, earliest first.
      def members(conn, name, start)
        conn.call("ZRANGE", name, start, start + PAGE - 1, "WITHSCORES").flatten.each_slice(2)
            .map { |member, score| [member, number(score)] }
      end

      # The server's `inf` is not a number in Ruby.
      def number(score)
        score.to_s.include?("inf") ? Float::INFINITY : Float(score)
      end
    end

    # From Sidekiq 7 on, it is created with a configuration.
    def initialize(*)
      @done = false
    end

    def run
      Waiting::BOTH.sum { |waiting| take(waiting) }
    end

    # Called by Sidekiq's poller.
    def enqueue_jobs(*)
      run
      name_queues
    end

    def terminate
      @done = true
    end

    # Returns how many it moved.
    def take(waiting)
      moved = 0
      stayed = 0
      until @done
        members = Sidekiq.redis { |conn| Takeover.members(conn, waiting.name, stayed) }
        return moved if members.empty?

        # Jobs that were neither moved nor stay were moved by another process meanwhile.
        now_moved, now_stayed = move(waiting, members)
        moved += now_moved
        stayed += now_stayed
      end
      moved
    end

    private

    # Returns how many it moved, and how many stay.
    def move(waiting, members)
      jobs = members.filter_map { |member, score| readable(waiting, member, score) }
      sums = [0, members.size - jobs.size]
      jobs.group_by { |job, _| job["queue"] }.each do |queue, some|
        moved, refused, why = take_for(waiting, queue, some)
        tell(waiting, "#{waiting.key(queue)} #{why}", "some jobs for #{queue}", why) unless why.empty?
        sums = [sums[0] + moved, sums[1] + refused]
      end
      sums
    end

    def take_for(waiting, queue, some)
      jobs = some.map do |job, member, score|
        at = [score, 0].max
        Job.new(member, score, (at * 1000).ceil, Waiting.element(job, at), job["jid"], Waiting.other_id(job))
      end
      Sidekiq.redis { |conn| Errors.patient(conn) { Taking.new(conn, waiting, queue).run(jobs) } }
    end

    # Parses a job like Sidekiq when it is due, but keeps jobs that Sidekiq would throw away.
    def readable(waiting, member, score)
      raise ArgumentError, "it is for no moment" unless score.abs < Moment::LAST

      job = Sidekiq.load_json(member)
      raise ArgumentError, "it is no job" unless job.is_a?(Hash)

      [Sidekiq::Client.new.normalize_item(job), member, score]
    rescue StandardError => error
      tell(waiting, member, member[0, 200], error.message)
      nil
    end

    def tell(waiting, what, shown, why)
      told = Takeover.told
      return if told.key?(what.hash)

      told.clear if told.size >= TOLD
      told[what.hash] = true
      Sidekiq.logger.warn { "stays in the sorted set #{waiting.name}: #{shown}: #{why.lines.first.to_s.strip}" }
    end

    # Deleting a queue on Sidekiq's page removes it from the set of queues. Adds it again when it has jobs.
    def name_queues
      Sidekiq.redis do |conn|
        missing = conn.call("SDIFF", OURS, QUEUES)
        filled = missing.select { |queue| conn.call("LLEN", "queue:#{queue}").positive? }
        conn.call("SADD", QUEUES, *filled) unless filled.empty?
      end
    end
  end

  # A job of a sorted set: its member, its score as it was read, its time in unix ms, its element, its id, and another one.
  Job = Struct.new(:member, :score, :at, :element, :id, :other_id)

  # Moves jobs of one queue from a sorted set into its dehydrator. Those that the dehydrator refuses, or whose key has another
  # type, stay, unless they are due: then they are pushed here.
  class Taking
    def initialize(conn, waiting, queue)
      @conn, @set, @queue = conn, waiting.name, queue
      @key, @list = waiting.key(queue), "queue:#{queue}"
    end

    # Returns how many were moved, how many were refused, and why.
    def run(jobs)
      why, taken, pushed, left = "", [], [], []
      replies = Atomic.watching(@conn, @set, Waiting.limited(@conn, @key)) do
        here = present(jobs)
        room, why = room_for(here.size)
        taken = here.first(room)
        pushed, left = here.drop(room).partition { |job| job.at <= Moment.now * 1000 }
        commands(taken, pushed) unless (taken + pushed).empty?
      end
      return [0, left.size, why] unless replies

      refused, told = mend(taken, pushed, replies.last(taken.size + pushed.size))
      [taken.size + pushed.size - refused, left.size + refused, told || why]
    end

    private

    # Other processes may take them too.
    def present(jobs)
      scores = @conn.call("ZMSCORE", @set, *jobs.map(&:member))
      jobs.zip(scores).filter_map { |job, score| job if score && Takeover.number(score) == job.score }
    end

    # How many jobs fit, and why no more do. Without the rule, nothing would push them.
    def room_for(count)
      @conn.call("DEHYDRATOR.ONDUE", @key, "LIST", @list, "LEFT")
      room, why = Waiting.room(@conn, @key, count)
      [room, why || ""]
    rescue Errors::COMMAND => error
      Errors::ANOTHER_SERVER.match?(error.message) ? raise : [0, error.message]
    end

    def commands(taken, pushed)
      there = @conn.pipelined { |pipe| taken.each { |job| pipe.call("DEHYDRATOR.LOOK", @key, job.id) } }
      ours = [["SADD", OURS, @queue]] unless taken.empty?
      [["SADD", QUEUES, @queue], *ours, ["ZREM", @set, *(taken + pushed).map(&:member)],
       *taken.zip(there).map do |job, other|
         other && !same?(job, other) ? push(job, job.other_id, "REPLACE") : push(job, job.id, "NX")
       end,
       *pushed.map { |job| ["LPUSH", @list, job.element] }]
    end

    def same?(job, other)
      [job.element, other].map { |one| Waiting.known_by(Sidekiq.load_json(one)).except("created_at") }.uniq.one?
    end

    def push(job, id, how)
      ["DEHYDRATOR.PUSH", @key, 0, job.element, id, how, "AT", job.at]
    end

    # What was refused goes back at once, and what found another job with its id. Returns how many, and why.
    def mend(taken, pushed, replies)
      refused = (taken + pushed).zip(replies).select { |job, reply| Atomic.error?(reply) || (reply.nil? && another?(job)) }
      @conn.call("ZADD", @set, *refused.flat_map { |job, _| [job.score.to_s, job.member] }) unless refused.empty?
      [refused.size, refused.filter_map { |_, reply| reply&.message }.first]
    end

    # Or it is the same job, which was moved before its connection broke.
    def another?(job)
      other = @conn.call("DEHYDRATOR.LOOK", @key, job.id)
      other && !same?(job, other)
    end
  end

  # The way back: from dehydrators into Sidekiq's sorted sets and lists.
  class Leaving
    PAGE = 200

    def run
      moved = Waiting::BOTH.sum { |waiting| waiting.all_keys.sum { |key| empty(key, waiting.name) } }
      queues = Sidekiq.redis { |conn| conn.call("SUNION", OURS, QUEUES) }
      moved += queues.sum { |queue| empty_queue(queue) }
      Sidekiq.redis { |conn| conn.call("DEL", OURS, Schedules::KEY, Unique::KEY) }
      moved
    end

    private

    # The server delivers nothing any more.
    def empty(key, set)
      all do |conn|
        conn.call("DEHYDRATOR.ONDUE", key, "HOLD")
        move(conn, key) { |rows| [["ZADD", set, *rows.flat_map { |row| [format("%.3f", row.deadline / 1000r), row.element] }]] }
      end
    end

    # The jobs of `reliable!`, the oldest first.
    def empty_queue(queue)
      list, transit = "queue:#{queue}", Queues.transit(queue)
      all do |conn|
        nil while conn.call("LMOVE", transit, list, "LEFT", "RIGHT")
        move(conn, Queues.key(queue)) { |rows| [["LPUSH", list, *rows.map(&:element)], ["SADD", QUEUES, queue]] }
      end
    end

    # Moves the first jobs of a dehydrator by the commands of the block, and deletes it when it is empty.
    def move(conn, key)
      rows = []
      replies = Atomic.watching(conn, key) do
        rows = Waiting::SCHEDULE.range(key, "-", "+", count: PAGE).last
        [*yield(rows), ["DEHYDRATOR.REM", key, *rows.map(&:id)]] unless rows.empty?
      end
      replies ? Atomic.checked(replies) : conn.call("DEL", key)
      rows.size
    end

    # Yields until nothing is moved. Returns how many it moved.
    def all
      moved = 0
      loop do
        now_moved = Sidekiq.redis { |conn| Errors.explained { yield conn } }
        return moved if now_moved.zero?

        moved += now_moved
      end
    end
  end
end
