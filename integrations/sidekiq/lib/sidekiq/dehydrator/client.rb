# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # `Sidekiq::Client`: scheduled jobs go into a dehydrator, and with `reliable!` all jobs.
    module Client
      # Sidekiq sends a bulk in batches. If one is refused, earlier batches are removed again, except for jobs that came
      # due.
      def push_bulk(items)
        sent = Thread.current[:sidekiq_dehydrator_bulk] = []
        super
      rescue Refused
        @redis_pool.with { |conn| Waiting::SCHEDULE.take_back(conn, sent) }
        raise
      ensure
        Thread.current[:sidekiq_dehydrator_bulk] = nil
      end

      private

      def raw_push(payloads)
        return super if testing?

        unless payloads.first.key?("at")
          return super unless Reliable.on?

          @redis_pool.with { |conn| Queues.push(conn, payloads) }
          return true
        end

        @redis_pool.with do |conn|
          Waiting::SCHEDULE.put(conn, payloads.map { |job| [job, job["at"].to_f] })
        end
        Thread.current[:sidekiq_dehydrator_bulk]&.concat(payloads.map { |job| job.slice("queue", "jid") })
        # As Sidekiq leaves them.
        payloads.each { |job| job.delete("at") } if Sidekiq::VERSION.to_i < 7
        true
      end

      def testing?
        defined?(Sidekiq::Testing) && Sidekiq::Testing.enabled?
      end
    end
  end
end
