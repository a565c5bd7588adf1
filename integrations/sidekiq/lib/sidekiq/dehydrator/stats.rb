# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # `Sidekiq::Stats`: how many are scheduled, and to be retried.
    module Stats
      def fetch_stats_fast!
        super
        @stats[:scheduled_size] += Waiting::SCHEDULE.size
        @stats[:retry_size] += Waiting::RETRY.size
        @stats
      end
    end
  end
end
