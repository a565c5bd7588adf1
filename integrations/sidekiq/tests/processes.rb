# frozen_string_literal: true

require "rbconfig"

# Sidekiq's own processes, and the records of their jobs.
RUBY = ENV.fetch("SIDEKIQ_RUBY", RbConfig.ruby)
GEM = File.expand_path("../lib", __dir__)

class SidekiqProcess
  attr_reader :pid

  # `plain`: without the gem. `poll`: how often Sidekiq looks, in seconds, if not as by default. `schedule`: its file of
  # periodic jobs. `stall`: a file that it writes when it has begun with one, and then it stops. `slow`: it takes a
  # while for each. `reliable`: it leases, for so many seconds. `limits`: of its queues, as Ruby. `timeout`: for how long it
  # waits for its jobs when it stops. `more`: variables for its jobs.
  def initialize(server, queue: "default", threads: 5, plain: false, poll: nil, schedule: nil, stall: nil, slow: nil,
                 reliable: nil, limits: nil, timeout: nil, more: {})
    environment = { "REDIS_URL" => server.url, "DONE" => "#{server.folder}/done", "PLAIN" => plain ? "1" : nil,
                    "POLL" => poll&.to_s, "SCHEDULE" => schedule, "STALL" => stall,
                    "SLOW" => slow ? "1" : nil, "RELIABLE" => reliable&.to_s, "LIMITS" => limits, **more }
    @log = "#{server.folder}/sidekiq.log"
    program = "#{__dir__}/sidekiq_program.rb"
    queues = Array(queue).flat_map { |name| ["-q", name] }
    queues += ["-t", timeout.to_s] if timeout
    @pid = spawn(environment, RUBY, "-W0", "-I", GEM, program, "-r", "#{__dir__}/jobs.rb", *queues, "-c", threads.to_s,
                 out: [@log, "a"], err: [@log, "a"])
  end

  def running?
    !Process.wait(pid, Process::WNOHANG)
  end

  def log
    File.read(@log)
  end

  def kill
    Process.kill("KILL", pid)
    Process.wait(pid)
  end

  def stop
    Process.kill("TERM", pid)
    Process.wait(pid)
  end
end

# The records of jobs: a number, and the lateness in seconds.
def done(server)
  path = "#{server.folder}/done"
  return [] unless File.exist?(path)

  File.readlines(path).map do |line|
    number, late = line.split
    [number.to_i, late.to_f]
  end
end
