# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # Moves jobs from one of Sidekiq's lists into its dehydrator, at once: jobs that came due, and jobs of clients without
    # this gem. Each process has one of these threads for each of its queues. One of them wakes for a job: it moves the job
    # to a second list, atomically, and then all that is in both lists into the dehydrator, atomically too.
    class ListThread
      # In seconds.
      BLOCK = 2

      # How many jobs a script moves.
      PAGE = 200

      # Moves all jobs of a list. Returns how many, and why the rest stays (nil).
      def self.drain(conn, queue)
        keys = [Queues.transit(queue), "queue:#{queue}", Queues.key(queue)]
        total = 0
        loop do
          moved, why = Errors.explained { Scripts::DRAIN.call(conn, keys, [PAGE]) }
          total += moved
          return [total, why] if moved < PAGE
        end
      end

      def initialize(queue)
        @queue = queue
        @connection = OwnConnection.new
        @done = false
      end

      def start
        @thread = Thread.new { run }
      end

      # Waits for all of them together.
      def self.stop(threads)
        threads.each(&:quiet)
        finish = Fetcher.now + BLOCK + 1
        threads.each { |thread| thread.join([finish - Fetcher.now, 0].max) }
      end

      def quiet
        @done = true
      end

      def join(seconds)
        @thread.join(seconds)
      end

      private

      def run
        until @done
          begin
            serve
          rescue StandardError => error
            Sidekiq.logger.error { "list #{@queue}: #{error.class}: #{error.message}" }
            @connection.close
            sleep(1)
          end
        end
      ensure
        @connection.close
      end

      # What a killed process left behind is moved with the next.
      def serve
        _, why = ListThread.drain(@connection, @queue)
        raise Refused, why if why

        @connection.blocking_call(2 * BLOCK, "BLMOVE", "queue:#{@queue}", Queues.transit(@queue), "RIGHT", "LEFT", BLOCK)
      end
    end
  end
end
