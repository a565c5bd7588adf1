# frozen_string_literal: true

require "digest/sha1"

module Sidekiq::Dehydrator
  # `sidekiq_options unique_for: 600`: a job is not pushed while another one of the same class, queue and arguments waits,
  # runs or is retried, for that many seconds at most. With `unique_until: :start`, until it begins. Each lock is an
  # element, which the server drops when the time is over: its id is that of the arguments, its content the job id.
  module Unique
    KEY = "dehydrator:unique"

    # Client middleware. A job that has the lock already, as an interrupted one, is pushed.
    class Locking
      include Sidekiq::ClientMiddleware if defined?(Sidekiq::ClientMiddleware)

      def call(_class, job, _queue, pool)
        seconds = job["unique_for"].to_f
        return yield unless seconds.positive?

        yield if pool.with { |conn| Unique.lock(conn, job, seconds + [job["at"].to_f - Moment.now, 0].max) }
      end
    end

    # Server middleware. A job that fails keeps the lock: it is retried.
    class Unlocking
      include Sidekiq::ServerMiddleware if defined?(Sidekiq::ServerMiddleware)

      def call(_job, item, _queue)
        return yield unless item["unique_for"]

        start = item["unique_until"].to_s == "start"
        unlock(item) if start
        result = yield
        unlock(item) unless start
        result
      end

      private

      def unlock(job)
        Sidekiq.redis { |conn| Unique.unlock(conn, job) }
      end
    end

    # Returns whether the job has the lock now.
    def self.lock(conn, job, seconds)
      words = ["DEHYDRATOR.PUSH", KEY, (seconds * 1000).ceil, job["jid"], id(job), "NX"]
      locked = Errors.explained do
        conn.pipelined do |pipe|
          pipe.call("DEHYDRATOR.ONDUE", KEY, "DROP")
          pipe.call(*words)
        end.last
      end
      !locked.nil? || conn.call("DEHYDRATOR.LOOK", KEY, id(job)) == job["jid"]
    end

    def self.unlock(conn, job)
      Atomic.watching(conn, KEY) do
        [["DEHYDRATOR.REM", KEY, id(job)]] if conn.call("DEHYDRATOR.LOOK", KEY, id(job)) == job["jid"]
      end
    end

    # For jobs that were not pushed, because there was no room.
    def self.unlock_all(conn, jobs)
      jobs.each { |job| unlock(conn, job) if job["unique_for"] }
    end

    # The fields by which a lock is found.
    def self.needs(job)
      job["unique_for"] ? %w[unique_for class args] : []
    end

    def self.id(job)
      Digest::SHA1.hexdigest(Sidekiq.dump_json(job.values_at("class", "queue", "args")))
    end

    def self.install
      Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add(Locking) } }
      Sidekiq.configure_server do |config|
        config.client_middleware { |chain| chain.add(Locking) }
        config.server_middleware { |chain| chain.add(Unlocking) }
      end
    end
  end
end
