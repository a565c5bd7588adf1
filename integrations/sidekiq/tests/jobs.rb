# frozen_string_literal: true

require "sidekiq"
require "sidekiq-dehydrator" unless ENV["PLAIN"]

Sidekiq.strict_args!(false) if Sidekiq.respond_to?(:strict_args!)

# Its value: for how many seconds jobs are leased.
Sidekiq::Dehydrator.reliable!(lease: Float(ENV["RELIABLE"]), queues: ENV["LIMITS"] ? eval(ENV["LIMITS"]) : {}) if ENV["RELIABLE"]

Sidekiq::Dehydrator::Schedules.file = ENV["SCHEDULE"] if ENV["SCHEDULE"]

# From Sidekiq 7 on: threads for other queues.
if ENV["CAPSULE"]
  Sidekiq.configure_server do |config|
    config.capsule("one-at-a-time") do |capsule|
      capsule.concurrency = 1
      capsule.queues = %w[single]
    end
  end
end

# A client middleware that never ends. It tells when it has begun.
class Stall
  def call(*)
    File.write(ENV.fetch("STALL"), "")
    sleep
  end
end

# A client middleware in which a process may well be killed.
class Slow
  def call(*)
    sleep(0.2)
    yield
  end
end

if ENV["SLOW"]
  Sidekiq.configure_server { |config| config.client_middleware { |chain| chain.add(Slow) } }
end

if ENV["STALL"]
  Sidekiq::Dehydrator::ScheduleThread.const_set(:LEASE, 6000)
  Sidekiq.configure_server { |config| config.client_middleware { |chain| chain.add(Stall) } }
end

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

# Tells when it begins, and then takes a while.
class Long < Note
  def perform(number, seconds)
    super(number, Time.now.to_f)
    sleep(seconds)
  end
end

# Writes down when it begins and ends, and in which process.
class Traced
  include Sidekiq::Worker

  def self.write(*words)
    File.open(ENV.fetch("DONE"), "a") { |file| file.syswrite("#{words.join(" ")}\n") }
  end

  def perform(number, due, seconds)
    began = Time.now.to_f
    Traced.write("began", number, began, Process.pid, began - due)
    sleep(seconds)
    Traced.write("ended", number, Time.now.to_f, Process.pid)
  end
end

# Its process is killed.
class Deadly < Note
  def perform(number)
    super(number, Time.now.to_f)
    Process.kill("KILL", Process.pid)
  end
end

if Sidekiq::VERSION.to_f >= 7.3
  # Writes down each number up to a hundred.
  class Steps
    include Sidekiq::IterableJob

    def build_enumerator(cursor:)
      array_enumerator((0...100).to_a, cursor: cursor)
    end

    def each_iteration(number)
      File.open(ENV.fetch("DONE"), "a") { |file| file.syswrite("#{number} 0\n") }
      sleep 0.02
    end
  end
end

class Empty
  include Sidekiq::Worker

  def perform(seconds, *)
    sleep(seconds) if seconds.is_a?(Float) && seconds.positive?
  end
end

if ENV["ACTIVE_JOB"]
  require "logger"
  require "active_job"

  # Active Job asks for the version of Sidekiq, which is not installed as a gem.
  def gem(*); end

  ActiveJob::Base.queue_adapter = :sidekiq
  ActiveJob::Base.logger = nil

  # Writes down that it ran, and fails the first time, if it is told to.
  class Active < ActiveJob::Base
    retry_on RuntimeError, wait: 1, attempts: 2

    def perform(number, due, fails: false)
      Note.new.perform(number, due)
      raise "again" if fails && executions == 1
    end
  end
end

class Once < Flaky
  sidekiq_options unique_for: 60
end

class OnceBegun < Long
  sidekiq_options unique_for: 60, unique_until: :start
end
