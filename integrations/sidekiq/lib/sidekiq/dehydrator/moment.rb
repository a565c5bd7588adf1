# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Sidekiq uses seconds with a fraction; the server uses milliseconds.
  module Moment
    # Servers count up to 2^63 ms, and calendars not further.
    LAST = 1e13

    def self.now
      Time.now.to_f
    end

    # Returns the milliseconds until then, by this clock. Plus one, because the server counts from the start of its
    # current ms; 0 for due jobs.
    def self.ttl(at, now = self.now)
      wait = (at - now) * 1000
      wait.positive? ? wait.ceil + 1 : 0
    end

    # As Sidekiq writes it into a job that it pushes: from version 8 on in ms.
    def self.enqueued_at(at)
      Sidekiq::VERSION.to_i >= 8 ? (at * 1000).ceil : at
    end
  end
end
