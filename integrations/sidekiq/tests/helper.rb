# frozen_string_literal: true

require "minitest/autorun"
require "sidekiq"
require "sidekiq-dehydrator"
require_relative "processes"
require_relative "servers"
require_relative "jobs"

ENV["MT_NO_PLUGINS"] = "1"
Sidekiq.logger.level = Logger::ERROR
Redis.silence_deprecations = true if defined?(Redis) && Redis.respond_to?(:silence_deprecations=)

# How many jobs the long tests put off.
QUICK = ENV.key?("QUICK")
MANY = QUICK ? 500 : 20_000

class DehydratorTest < Minitest::Test
  # One server for all tests that do not kill it.
  def self.server
    @@server ||= RealServer.new("--appendfsync", "no")
  end

  Minitest.after_run { @@server.close if class_variable_defined?(:@@server) }

  def setup
    use(DehydratorTest.server)
    ask("FLUSHALL")
    FileUtils.rm_f("#{@server.folder}/done")
    @processes = []
  end

  def teardown
    @processes.each { |process| process.kill if process.running? }
  end

  # From now on this process's Sidekiq speaks to that server.
  def use(server)
    @server = server
    # Afresh, so that no connection to an earlier server is left.
    if Sidekiq.respond_to?(:default_configuration)
      Sidekiq.instance_variable_set(:@config, Sidekiq::Config.new)
      Sidekiq.default_configuration.logger.level = Logger::ERROR
      Sidekiq.default_configuration.redis = { url: server.url }
    else
      Sidekiq.redis = { url: server.url }
    end
  end

  def ask(*words)
    Sidekiq.redis { |conn| conn.call(*words) }
  end

  def sidekiq(**options)
    process = SidekiqProcess.new(@server, **options)
    @processes << process
    process
  end

  def scheduled
    Sidekiq::ScheduledSet.new
  end

  def retries
    Sidekiq::RetrySet.new
  end

  def queue(name = "default")
    Sidekiq::Queue.new(name)
  end

  def waits(jid)
    scheduled.find_job(jid)
  end
end
