# frozen_string_literal: true

require "sidekiq"
require "sidekiq-dehydrator" unless ENV["PLAIN"]

Sidekiq.strict_args!(false) if Sidekiq.respond_to?(:strict_args!)

# Writes down that it ran, and how late, in a file: a line is there or not, also if the process is killed.
class Note
  include Sidekiq::Worker

  def perform(number, due)
    late = Time.now.to_f - due
    File.open(ENV.fetch("DONE"), "a") { |file| file.syswrite("#{number} #{late}\n") }
  end
end

# Fails as often as is said, and then writes.
class Flaky < Note
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(number, due, failures)
    super(number, due)
    count = File.readlines(ENV.fetch("DONE")).count { |line| line.start_with?("#{number} ") }
    raise "again" if count <= failures
  end
end
