# frozen_string_literal: true

module Sidekiq::Dehydrator
  # `Sidekiq::Stats`: the numbers of scheduled jobs and retries.
  module Stats
    def fetch_stats_fast!
      super
      @stats[:scheduled_size] += Waiting::SCHEDULE.size
      @stats[:retry_size] += Waiting::RETRY.size
      @stats
    end
  end
end
