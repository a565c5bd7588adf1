# frozen_string_literal: true

module Sidekiq::Dehydrator
  # The thread beside a fetcher's threads, which renews their leases while they work.
  class Keeper
    # How often in a lease.
    TIMES = 3

    # `lock` guards the fetcher, and is held by callers of `wake`.
    def initialize(fetcher, lock)
      @fetcher = fetcher
      @lock = lock
      @chores = ConditionVariable.new
      @sleeping = false
      @starting = Mutex.new
    end

    # Starts it, unless it lives: a process that forks has it afterwards too.
    def start
      return if @thread&.alive?

      @starting.synchronize { @thread = Thread.new { run } unless @thread&.alive? }
    end

    # There is something to tidy up soon.
    def wake
      @chores.signal if @sleeping
    end

    private

    def run
      connection = OwnConnection.new
      renewed = Fetcher.now
      loop do
        pause(renewed + pace)
        @fetcher.tidy(connection)
        next if Fetcher.now < renewed + pace

        renewed = Fetcher.now
        @fetcher.renew(connection)
      rescue StandardError => error
        Sidekiq.logger.error { "leases: #{error.class}: #{error.message}" }
        connection.close
        sleep(1)
      end
    end

    def pace
      Fetcher.lease / 1000.0 / TIMES
    end

    def pause(until_then)
      @lock.synchronize do
        next unless @fetcher.idle?

        @sleeping = true
        @chores.wait(@lock, [until_then - Fetcher.now, 0].max)
        @sleeping = false
      end
      sleep(Fetcher::TICK)
    end
  end
end
