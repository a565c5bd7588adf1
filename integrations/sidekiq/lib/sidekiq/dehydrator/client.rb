# frozen_string_literal: true

module Sidekiq::Dehydrator
  # `Sidekiq::Client`: scheduled jobs go into a dehydrator, and with `reliable!` all jobs.
  module Client
    # Sidekiq sends a bulk in batches. If one is refused, earlier batches are removed again, except for jobs that came
    # due.
    def push_bulk(items)
      sent = Thread.current[:sidekiq_dehydrator_bulk] = []
      super
    rescue Refused
      @redis_pool.with do |conn|
        Waiting::SCHEDULE.take_back(conn, sent)
        Unique.unlock_all(conn, sent)
      end
      raise
    ensure
      Thread.current[:sidekiq_dehydrator_bulk] = nil
    end

    private

    def raw_push(payloads)
      return super if testing?

      is_due = !payloads.first.key?("at")
      return super if is_due && !Reliable.on?

      @redis_pool.with { |conn| push_ours(conn, payloads, is_due) }
      return true if is_due

      Thread.current[:sidekiq_dehydrator_bulk]&.concat(payloads.map { |job| job.slice("queue", "jid", *Unique.needs(job)) })
      # As Sidekiq leaves them.
      payloads.each { |job| job.delete("at") } if Sidekiq::VERSION.to_i < 7
      true
    end

    def push_ours(conn, payloads, is_due)
      if is_due
        Queues.push(conn, payloads)
      else
        Waiting::SCHEDULE.put(conn, payloads.map { |job| [job, job["at"].to_f] })
      end
    rescue Refused
      Unique.unlock_all(conn, payloads)
      raise
    end

    def testing?
      defined?(Sidekiq::Testing) && Sidekiq::Testing.enabled?
    end
  end
end
