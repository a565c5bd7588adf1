# frozen_string_literal: true

module Sidekiq::Dehydrator
  # A thread that sleeps in the server until there is something to do. Its class has `once`, which does that, and `name`.
  class Sleeper
    # In seconds. Sidekiq's threads wait as long for a job.
    BLOCK = 2

    # Stops several, and waits for all of them together.
    def self.stop(threads)
      threads.each(&:quiet)
      finish = Fetcher.now + BLOCK + 1
      threads.each { |thread| thread.join([finish - Fetcher.now, 0].max) }
    end

    def initialize
      @done = false
      @connection = OwnConnection.new
    end

    def start
      @thread = Thread.new { run }
    end

    def quiet
      @done = true
    end

    def join(seconds)
      @thread.join(seconds)
    end

    # Returns false if it failed.
    def serve
      once
      true
    rescue StandardError => error
      Sidekiq.logger.error { "#{name}: #{error.class}: #{error.message}" }
      @connection.close
      false
    end

    private

    def run
      serve || sleep(1) until @done
    ensure
      @connection.close
    end
  end
end
