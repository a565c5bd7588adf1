# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # Sidekiq says seconds, with a fraction; the server milliseconds.
    module Moment
      # No server counts further than 2^63 ms; no calendar either.
      LAST = 1e13

      def self.now
        Time.now.to_f
      end

      # In how many ms is that, by this clock? A little too many rather than too few.
      def self.ttl(at)
        [((at - now) * 1000).ceil, 0].max
      end

      # As Sidekiq writes it into a job that it pushes: from version 8 on in ms.
      def self.enqueued_at(at)
        Sidekiq::VERSION.to_i >= 8 ? (at * 1000).ceil : at
      end
    end
  end
end
