# frozen_string_literal: true

module Sidekiq::Dehydrator
  # A leased job: what Sidekiq calls a unit of work.
  class Unit
    attr_reader :key, :id, :job, :deliveries, :token
    attr_accessor :since

    def initialize(fetcher, key, row)
      @fetcher = fetcher
      @key = key
      @id, @job, @deliveries, @token = row
      @since = Fetcher.now
    end

    def queue_name
      @queue_name ||= key.delete_prefix(Queues.key(""))
    end

    # As Sidekiq names it.
    def queue
      "queue:#{queue_name}"
    end

    def acknowledge
      @fetcher.acknowledge(self)
    end

    def requeue
      @fetcher.give_back([self])
    end

    # The payload, or nothing if it cannot be read.
    def fields
      @fields ||= Sidekiq.load_json(job).then { |item| item.is_a?(Hash) ? item : {} }
    rescue JSON::ParserError
      @fields = {}
    end

    def jid
      fields["jid"]
    end

    def same?(other)
      Waiting.known_by(fields) == Waiting.known_by(Sidekiq.load_json(Sidekiq.dump_json(other)))
    end

    def inspect
      "#<#{self.class} #{queue_name} #{job}>"
    end
  end
end
