# frozen_string_literal: true

require "delegate"

module Sidekiq
  module Dehydrator
    # `Sidekiq::JobRetry` adds what failed to the sorted set `retry`, by a connection that it asks for. It gets one that puts it
    # into a dehydrator.
    module Retries
      # A connection, of which ZADD retry is another thing.
      class Connection < SimpleDelegator
        def zadd(key, *rest)
          return super unless key == Waiting::RETRY.name && rest.size == 2 && put(*rest)
        end

        private

        # False: it has no id, there is no room, or no module after a failover. Then Sidekiq's set gets it, and `Takeover` looks
        # there.
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

      # From Sidekiq 7 on it asks by a method of its own.
      module Asking
        def redis
          super { |conn| yield Connection.new(conn) }
        end
      end

      # Before, it asks Sidekiq, in the method that puts a job off.
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
end
