# frozen_string_literal: true

# As Sidekiq's own program `sidekiq`.
require "sidekiq/cli"

cli = Sidekiq::CLI.instance
cli.parse(ARGV)
if ENV["POLL"]
  Sidekiq.configure_server do |config|
    (config.respond_to?(:[]=) ? config : config.options)[:poll_interval_average] = Float(ENV["POLL"])
  end
end
cli.run
