# frozen_string_literal: true

module Sidekiq::Dehydrator
  # A connection beside the pool, whose connections may be few, for a thread that sleeps in the server.
  class OwnConnection
    # Sends commands in one write, where the last one blocks for `patience` seconds at most. Returns its reply.
    def self.pipelined(conn, commands, patience)
      replies = conn.pipelined do |pipe|
        *others, last = commands
        others.each { |words| pipe.call(*words) }
        redis_client? ? pipe.blocking_call(patience, *last) : pipe.send(:send_blocking_command, last, patience)
      end
      replies.last
    end

    # Sidekiq 6 uses redis-rb.
    def self.redis_client?
      Sidekiq::VERSION.to_i >= 7
    end

    def call(*words)
      conn.call(*words)
    end

    def pipelined(&block)
      conn.pipelined(&block)
    end

    def once(&block)
      Atomic.once(conn, &block)
    end

    # The server replies within `patience` seconds.
    def blocking_call(patience, *words)
      OwnConnection.redis_client? ? conn.blocking_call(patience, *words) : conn._client.call_with_timeout(words, patience)
    end

    def close
      @conn&.close
      @conn = nil
    end

    private

    def conn
      @conn ||= Sidekiq.redis { |conn| OwnConnection.redis_client? ? conn.class.new(conn.config.new_client) : conn.dup }
    end
  end
end
