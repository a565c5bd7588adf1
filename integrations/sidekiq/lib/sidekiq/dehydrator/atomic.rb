# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Commands that take effect together or not at all, also if a process is killed.
  module Atomic
    # Returns their replies, in which an error is an object, or nil if a watched key has changed. If the connection breaks,
    # the client may send them again.
    def self.all(conn, commands)
      conn.pipelined do |pipe|
        [["MULTI"], *commands, ["EXEC"]].each { |words| pipe.call(*words) }
      end.last
    end

    # How often a busy key is watched.
    TRIES = 20

    # Yields, and sends the commands that the block returns if the key is still as it was then. Else it yields again. nil:
    # nothing is to be done. `busy`, a key that others change all the time, is watched too, TRIES times.
    def self.watching(conn, key, busy = nil)
      # Only this may connect again.
      conn.call("PING")
      once(conn) do
        (1..).each do |tried|
          conn.call("WATCH", key, *(busy if tried <= TRIES))
          commands = yield
          return conn.call("UNWATCH") && nil if commands.nil?

          replies = all(conn, commands)
          return replies if replies
        end
      end
    rescue StandardError
      # Others use this connection after us.
      conn.close
      raise
    end

    # Yields, and sends nothing twice: on another connection the watch would be lost.
    def self.once(conn, &block)
      return conn.once(&block) if conn.is_a?(OwnConnection)
      return conn.without_reconnect(&block) unless OwnConnection.redis_client?

      conn.instance_variable_get(:@client).disable_reconnection { yield }
    end

    # Raises the first error among replies.
    def self.checked(replies)
      error = replies.find { |reply| error?(reply) }
      error ? raise(error) : replies
    end

    def self.error?(reply)
      reply.is_a?(Errors::COMMAND)
    end

    # Moves a job that a command removes to the dead set. The block tells by the command's reply whether it was
    # there; it returns that.
    def self.kill(conn, words, payload)
      reply, = checked(all(conn, [words, ["ZADD", "dead", Moment.now.to_s, payload]]))
      is_there = yield reply
      conn.call("ZREM", "dead", payload) unless is_there
      is_there
    end
  end
end
