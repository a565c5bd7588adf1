# frozen_string_literal: true

require "delegate"

module Sidekiq::Dehydrator
  # `Sidekiq::JobRetry` adds failed jobs to the sorted set `retry`, on a connection that it requests. It gets one that
  # puts them into a dehydrator.
  module Retries
    # A connection that redirects ZADD retry.
    class Connection < SimpleDelegator
      def zadd(key, *rest)
        return super unless key == Waiting::RETRY.name && rest.size == 2 && put(*rest)
      end

      private

      # Returns false if the job has no id, a limit is reached, or the module is missing after a failover. Then
      # Sidekiq's set gets the job, and `Takeover` finds it there.
      def put(at, payload)
        job = Sidekiq.load_json(payload)
        return false unless Waiting.fits?(job)

        Waiting::RETRY.put(__getobj__, [[job, at.to_f]])
        true
      rescue Errors::COMMAND, Refused, ModuleMissing => error
        Sidekiq.logger.warn { "a retry waits in Sidekiq's own set: #{error.message}" }
        false
      end
    end

    # From Sidekiq 7 on, it requests a connection with its own method.
    module Asking
      def redis
        super { |conn| yield Connection.new(conn) }
      end
    end

    # Before, it asks Sidekiq, in the method that schedules the retry.
    module Marking
      private

      def attempt_retry(*)
        Thread.current[:sidekiq_dehydrator_retry] = true
        super
      ensure
        Thread.current[:sidekiq_dehydrator_retry] = nil
      end
    end

    module Marked
      def redis
        return super unless Thread.current[:sidekiq_dehydrator_retry]

        super { |conn| yield Connection.new(conn) }
      end
    end

    def self.install
      if Sidekiq::VERSION.to_i >= 7
        Sidekiq::JobRetry.prepend(Asking)
      else
        Sidekiq::JobRetry.prepend(Marking)
        Sidekiq.singleton_class.prepend(Marked)
      end
    end
  end
end
