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

      # In how many ms is that, by this clock? One more than that, for the server begins at the whole ms that it is in; and 0 for
      # what is due.
      def self.ttl(at)
        wait = (at - now) * 1000
        wait.positive? ? wait.ceil + 1 : 0
      end

      # As Sidekiq writes it into a job that it pushes: from version 8 on in ms.
      def self.enqueued_at(at)
        Sidekiq::VERSION.to_i >= 8 ? (at * 1000).ceil : at
      end
    end
  end
end
