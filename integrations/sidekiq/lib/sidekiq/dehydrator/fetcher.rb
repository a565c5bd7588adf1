# frozen_string_literal: true

require "securerandom"

module Sidekiq::Dehydrator
  # Leases jobs for the threads of a capsule (in Sidekiq 6, of the process), in the place of `Sidekiq::BasicFetch`.
  #
  # One thread at a time polls. It asks for a job for each thread that waits, and above FAST jobs a second for as many as
  # are done in AHEAD seconds. Finished jobs are settled in the same write as the next poll. If another thread polls, a
  # slow worker settles at once, and a fast one within TICK. `Keeper` renews leases, and does what is left over.
  class Fetcher
    # In seconds. Sidekiq's threads wait as long.
    BLOCK = 2

    FAST = 1000
    AHEAD = 0.01
    TICK = 0.005

    # In seconds: after a poll that found a job, the next one waits for it, if it is that short, to settle it too.
    LULL = 0.001

    # In seconds: no thread took a job that was leased ahead. It is given back.
    STALE = 0.05

    def self.now
      ::Process.clock_gettime(::Process::CLOCK_MONOTONIC)
    end

    # `config`: a capsule; in Sidekiq 6, its options.
    def initialize(config)
      @config = config
      names, @strict = config.is_a?(Hash) ? config.values_at(:queues, :strict) : [config.queues, config.mode == :strict]
      @keys = names.map { |name| Queues.key(name) }
      @lock = Mutex.new
      @news = ConditionVariable.new
      @polling = false
      @waiting = 0
      @ahead = []
      @in_hand = {}
      @done = []
      @pace = Pace.new
      @series = SecureRandom.hex(8)
      @keeper = Keeper.new(self, @lock)
      @quiet = false
      @found_at = 0.0
      Reliable.fetchers << self
    end

    # The process stops: its threads take nothing any more, also those that wait for their turn.
    def quiet
      @quiet = true
      @lock.synchronize { @news.broadcast }
    end

    # The process ends: settles what the keeper may not reach any more.
    def finish
      redis { |conn| settle(conn) }
    rescue StandardError => error
      Sidekiq.logger.warn { "finished jobs come again when their leases end: #{error.message}" }
    end

    def retrieve_work
      return if @quiet

      if @keys.empty?
        sleep(BLOCK)
        return
      end
      @keeper.start
      settle_now = @lock.synchronize { @polling && @ahead.empty? && @done.any? && @pace.rate < FAST }
      redis { |conn| settle(conn) } if settle_now
      unit = @lock.synchronize { wait_for_turn }
      unit = poll if unit == :turn
      unit
    end

    def bulk_requeue(units, _options = nil)
      redis { |conn| settle(conn) }
      give_back(units + @lock.synchronize { @ahead.shift(@ahead.size) })
      Sidekiq.logger.info { "gave #{units.size} jobs back" } unless units.empty?
    rescue StandardError => error
      Sidekiq.logger.warn { "#{units.size} jobs come again when their leases end: #{error.message}" }
    end

    def acknowledge(unit)
      @lock.synchronize do
        @in_hand.delete(Thread.current)
        unit.since = Fetcher.now
        @done << unit
        @pace.count(unit.since)
        @keeper.wake
      end
    end

    # Puts jobs back where they were, before later ones.
    def give_back(units)
      @lock.synchronize { @in_hand.delete_if { |_, unit| units.include?(unit) } }
      redis { |conn| release(conn, units) }
    end

    # For the keeper: what has waited for a thread or a poll that did not come.
    def tidy(conn)
      now = Fetcher.now
      stale, late = @lock.synchronize do
        [@ahead.first && now - @ahead.first.since > STALE ? @ahead.shift(@ahead.size) : [],
         @done.first && now - @done.first.since > TICK]
      end
      settle(conn) if late
      release(conn, stale)
    end

    def idle?
      @ahead.empty? && @done.empty?
    end

    # Extends the leases of all jobs whose threads live.
    def renew(conn)
      units = @lock.synchronize do
        @in_hand.delete_if { |thread, _| !thread.alive? }
        @in_hand.values + @ahead
      end
      units.group_by(&:key).each do |key, some|
        conn.call("DEHYDRATOR.RENEW", key, Fetcher.lease, *some.flat_map { |unit| [unit.token, unit.id] })
      end
    end

    # In ms.
    def self.lease
      (Reliable.settings.lease * 1000).to_i
    end

    private

    # Returns a job, `:turn` if this thread has to poll, or nil after a while.
    def wait_for_turn
      finish = Fetcher.now + BLOCK
      while @ahead.empty? && (lull = lull_left)
        left = finish - Fetcher.now
        return if left <= 0 || @quiet

        begin
          @waiting += 1
          @news.wait(@lock, [left, lull].min)
        ensure
          @waiting -= 1
        end
      end
      return if @quiet
      return hand(@ahead.shift) unless @ahead.empty?

      @polling = true
      :turn
    end

    # Returns for how long a thread has to wait for its turn to poll; nil: it may.
    def lull_left
      return BLOCK if @polling
      return if @done.any? || @in_hand.empty?

      left = @found_at + LULL - Fetcher.now
      left if left.positive?
    end

    def poll
      units = living(ask)
      @lock.synchronize do
        @token = nil
        @found_at = Fetcher.now
        @ahead.concat(units)
        hand(@ahead.shift) unless @ahead.empty?
      end
    ensure
      @lock.synchronize do
        @polling = false
        [units&.size || 0, 1].max.times { @news.signal }
      end
    end

    # A lost reply comes again, under the same token.
    def ask
      @token ||= "#{@series}-#{@number = @number.to_i + 1}"
      keys = @strict ? @keys.uniq : @keys.shuffle.uniq
      count, done = @lock.synchronize { [1 + @waiting + ahead, @done.shift(@done.size)] }
      words = ["DEHYDRATOR.MPOLL", keys.size, *keys, "COUNT", count, "BLOCK", BLOCK * 1000, "LEASE", Fetcher.lease,
               "TOKEN", @token]
      key, rows = Errors.explained { redis { |conn| OwnConnection.pipelined(conn, [*settling(done), words], 2 * BLOCK) } }
      done = nil
      (rows || []).map { |row| Unit.new(self, key, row) }
    ensure
      @lock.synchronize { @done.unshift(*done) } if done
    end

    def ahead
      rate = @pace.rate
      rate < FAST ? 0 : (rate * AHEAD).ceil
    end

    def hand(unit)
      Thread.current[:sidekiq_dehydrator_unit] = unit
      @in_hand[Thread.current] = unit
    end

    def living(units)
      units.reject do |unit|
        next if unit.deliveries <= Reliable.settings.kills

        redis { |conn| PoisonPill.bury(conn, unit) }
        true
      end
    end

    def settling(units)
      units.group_by(&:key).map do |key, some|
        ["DEHYDRATOR.SETTLE", key, *some.flat_map { |unit| [unit.token, unit.id] }]
      end
    end

    def settle(conn)
      done = @lock.synchronize { @done.shift(@done.size) }
      settling(done).each { |words| conn.call(*words) }
      done = nil
    ensure
      @lock.synchronize { @done.unshift(*done) } if done
    end

    def release(conn, units)
      units.group_by(&:key).each do |key, some|
        conn.call("DEHYDRATOR.RELEASE", key, 0, *some.flat_map { |unit| [unit.token, unit.id] }, "UNCOUNTED")
      end
    end

    def redis(&block)
      @config.respond_to?(:redis) ? @config.redis(&block) : Sidekiq.redis(&block)
    end
  end

  # How many jobs a second are done, lately.
  class Pace
    WINDOW = 0.1

    def initialize
      @since = Fetcher.now
      @count = 0
      @rate = 0.0
    end

    def count(now)
      @count += 1
      measure(now)
    end

    def rate
      measure(Fetcher.now)
      @rate
    end

    private

    def measure(now)
      passed = now - @since
      return if passed < WINDOW

      @rate = @count / passed
      @count = 0
      @since = now
    end
  end
end
