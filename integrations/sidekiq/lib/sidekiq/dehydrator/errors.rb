# frozen_string_literal: true

module Sidekiq::Dehydrator
  # The server does not know the commands.
  class ModuleMissing < StandardError
    def initialize
      super("the server has no module Dehydrator: load libdehydrator.so (--loadmodule, or MODULE LOAD), " \
            "or take the gem sidekiq-dehydrator out")
    end
  end

  # The server's module is older than this gem needs.
  class ModuleTooOld < StandardError
    NEEDED = "0.1.0"

    def initialize(version)
      super("the server's module Dehydrator is #{version}; this gem needs #{NEEDED} or later: replace it, as docs/operations.md " \
            "describes in Upgrade")
    end
  end

  # A limit is reached, the delay is longer than the operator allows, or the server has no memory left.
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
      raise named(error)
    end

    # Returns an error with a name of its own for a reply of the server.
    def self.named(error)
      case error.message
      when /unknown .*command.*DEHYDRATOR/i then ModuleMissing.new
      when /\A(FULL|LIMIT|OOM) / then Refused.new(error.message)
      else error
      end
    end

    # Raises what is wrong with the module, by the server's INFO.
    def self.check(info)
      version = info[/^dehydrator_version:([\d.]+)/, 1]
      raise ModuleMissing unless version
      raise ModuleTooOld, version if Gem::Version.new(version) < Gem::Version.new(ModuleTooOld::NEEDED)
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
