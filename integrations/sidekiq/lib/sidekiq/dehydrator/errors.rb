# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # The server does not know the commands.
    class ModuleMissing < StandardError
      def initialize
        super("the server has no module Dehydrator, or one before ONDUE LIST and REJECT: load libdehydrator.so " \
              "(--loadmodule, or MODULE LOAD), or take the gem sidekiq-dehydrator out")
      end
    end

    # A limit is reached, or the delay is longer than the operator allows.
    class Refused < StandardError; end

    module Errors
      # Sidekiq 6 uses redis-rb, later versions redis-client.
      COMMAND = defined?(::RedisClient) ? ::RedisClient::CommandError : ::Redis::CommandError
      BASE = defined?(::RedisClient) ? ::RedisClient::Error : ::Redis::BaseError

      # The replies after which Sidekiq's own client reconnects, and retries once.
      ANOTHER_SERVER = /READONLY|NOREPLICAS|UNBLOCKED/

      def self.explained
        yield
      rescue COMMAND => error
        raise ModuleMissing if /unknown .*command.*(DEHYDRATOR|from script)/i.match?(error.message)

        raise
      end

      # Yields, and again if the server has become a replica meanwhile, like Sidekiq's push.
      def self.patient(conn)
        again = true
        begin
          explained { yield conn }
        rescue BASE => error
          raise unless again && ANOTHER_SERVER.match?(error.message)

          again = false
          conn.respond_to?(:disconnect!) ? conn.disconnect! : conn.close
          retry
        end
      end
    end
  end
end
