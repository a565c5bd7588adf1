# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # Moves jobs from one of Sidekiq's lists into its dehydrator, at once: jobs that came due, and jobs of clients without
    # this gem. Each process has one of these threads for each of its queues. One of them wakes for a job: it moves the job
    # to a second list, atomically, and then all that is in both lists into the dehydrator, atomically too.
    class ListThread
      # In seconds.
      BLOCK = 2

      # How many jobs are moved at once.
      PAGE = 200

      # Moves all jobs of a list. Returns how many, and why the rest stays (nil).
      def self.drain(conn, queue)
        list, transit, total = "queue:#{queue}", Queues.transit(queue), 0
        loop do
          moved, why = Errors.explained { page(conn, queue, transit) }
          total += moved
          waiting = [conn.call("LLEN", list), PAGE].min
          return [total, why] if why || (moved + waiting).zero?

          conn.pipelined { |pipe| waiting.times { pipe.call("LMOVE", list, transit, "RIGHT", "LEFT") } }
        end
      end

      # Moves the oldest jobs of the second list. The same job may come twice, or another one with its id.
      def self.page(conn, queue, transit)
        rows = []
        replies = Atomic.watching(conn, transit) do
          jobs = conn.call("LRANGE", transit, -PAGE, -1).reverse
          rows = jobs.zip(ids(jobs))
          next if jobs.empty?

          [["DEHYDRATOR.MPUSH", Queues.key(queue), *rows.flat_map { |job, id| [0, job, id] }, "NX"],
           ["LTRIM", transit, 0, -jobs.size - 1]]
        end
        replies ? settle(conn, queue, transit, rows, replies.first) : [0, nil]
      end

      # Puts back what was refused.
      def self.settle(conn, queue, transit, rows, put)
        put, why = Atomic.error?(put) ? [[-1] * rows.size, put.message] : [put, nil]
        back = rows.zip(put).filter_map { |(job, _), reply| job if reply.negative? }
        conn.call("RPUSH", transit, *back.reverse) unless back.empty?
        why ||= "#{Queues.key(queue)} holds as many jobs as LIMIT allows" unless back.empty?
        rows.zip(put) { |(job, id), reply| Queues.push_beside(conn, queue, job, id) if reply.zero? }
        [rows.size - back.size, why]
      end

      def self.ids(jobs)
        seen = {}
        jobs.map do |job|
          fields = JSON.parse(job)
          id = fields["jid"] if fields.is_a?(Hash) && fields["jid"].is_a?(String)
          seen[id ||= Digest::SHA1.hexdigest(job)] ? "#{id}:#{SecureRandom.hex(6)}" : (seen[id] = id)
        rescue JSON::ParserError
          Digest::SHA1.hexdigest(job)
        end
      end
      private_class_method :page, :settle, :ids

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
