# frozen_string_literal: true

module Sidekiq
  module Dehydrator
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

        private

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
        words = some.flat_map { |job, member, score| words(job, member, score) }
        keys = [waiting.name, waiting.key(queue), "queue:#{queue}", QUEUES, OURS]
        Sidekiq.redis { |conn| Errors.patient(conn) { Scripts::TAKE.call(conn, keys, [queue, *words]) } }
      end

      def words(job, member, score)
        at = [score, 0].max
        [member, score.to_s, (at * 1000).ceil, Waiting.element(job, at), job["jid"], Waiting.other_id(job)]
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

      def empty(key, set)
        all { |conn| Scripts::LEAVE.call(conn, [key, set], [PAGE]) }
      end

      # The jobs of `reliable!`.
      def empty_queue(queue)
        keys = [Queues.transit(queue), "queue:#{queue}", Queues.key(queue), QUEUES]
        all { |conn| Scripts::FILL.call(conn, keys, [PAGE, queue]) }
      end

      # Runs a script until it moves nothing. Returns how many it moved.
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
end
