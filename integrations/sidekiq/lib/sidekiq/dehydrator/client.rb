# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # `Sidekiq::Client`: what has a moment goes into a dehydrator.
    module Client
      private

      def raw_push(payloads)
        return super if !payloads.first.key?("at") || testing?

        @redis_pool.with do |conn|
          Waiting::SCHEDULE.put(conn, payloads.map { |job| [job, job["at"].to_f] })
        end
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
