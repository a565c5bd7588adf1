# frozen_string_literal: true

# Sidekiq's own poller and this gem, one after the other, on the same machine with the same jobs: how late they come, what they
# cost in the server's memory and processor time, and how many are lost or run twice, also when processes are killed that take
# nothing from the queue and, with Sidekiq's poller, only look for what is due.
#
# usage: bench.rb [jobs [seconds]]        default: 20000 jobs that come due within 30 seconds
#
# Prints a JSON array, with an entry for each.

require "json"
require "sidekiq"
require_relative "processes"
require_relative "servers"

COUNT = Integer(ARGV[0] || 20_000)
SECONDS = Float(ARGV[1] || 30)
WORKERS = 2
THREADS = 5
# Sidekiq's poller waits for 10 to 15 seconds before it begins.
AHEAD = 20.0

Sidekiq.logger.level = Logger::ERROR

class Contender
  def initialize(name, plain:, killing:)
    @name = name
    @plain = plain
    @killing = killing
  end

  def run
    @server = RealServer.new("--appendfsync", "everysec")
    begin
      measured
    ensure
      @server.close
    end
  end

  private

  def measured
    # They are there before anything is due: loading them takes long on a busy machine.
    processes = Array.new(WORKERS) { SidekiqProcess.new(@server, plain: @plain, threads: THREADS) }
    wait_until(120) { @server.say("SCARD", "processes") == ":#{WORKERS}" }
    before = info("used_memory")
    start = put_off
    memory = info("used_memory") - before
    cpu = processor
    kills = @killing ? kill_until(start + SECONDS) : 0
    settle(start)
    processes.each(&:stop)
    described(memory, processor - cpu, kills)
  end

  # Puts off by a process of its own: the gem cannot be taken out of one.
  def put_off
    start = Time.now.to_f + AHEAD
    program = "require '#{__dir__}/jobs'; " \
              "(0...#{COUNT}).each_slice(1000) { |some| moments = some.map { |n| #{start} + n * #{SECONDS} / #{COUNT} }; " \
              "Sidekiq::Client.push_bulk('class' => Note, 'args' => some.zip(moments), 'at' => moments) }"
    environment = { "REDIS_URL" => @server.url, "PLAIN" => @plain ? "1" : nil }
    raise "the jobs could not be put off" unless system(environment, RUBY, "-W0", "-I", GEM, "-e", program, out: File::NULL)

    start
  end

  # With the poller on, and nothing to do but to look: so what is lost is lost between the set and the queue.
  def kill_until(finish)
    random = Random.new(17)
    kills = 0
    while Time.now.to_f < finish
      process = SidekiqProcess.new(@server, queue: "other", plain: @plain, poll: 0.05)
      sleep random.rand(1.0..2.5)
      process.kill
      kills += 1
    end
    kills
  end

  # Until all have run, or nothing has run for a minute.
  def settle(start)
    sleep [start + SECONDS - Time.now.to_f, 0].max
    count = -1
    until done(@server).size >= COUNT || done(@server).size == count
      count = done(@server).size
      wait_until(61) { done(@server).size != count } rescue nil # rubocop:disable Style/RescueModifier
    end
  end

  def described(memory, cpu, kills)
    ran = done(@server)
    numbers = ran.map(&:first)
    late = ran.map { |_, seconds| seconds * 1000 }.sort
    { "contender" => @name, "version" => Sidekiq::VERSION, "jobs" => COUNT, "due_in_seconds" => SECONDS, "kills" => kills,
      "late_ms_p50" => late[late.size / 2].round(1), "late_ms_p99" => late[late.size * 99 / 100].round(1),
      "late_ms_max" => late.last.round(1), "early" => late.count { |ms| ms < -2 },
      "executions" => numbers.size, "lost" => COUNT - numbers.uniq.size, "twice" => numbers.size - numbers.uniq.size,
      "server_bytes_a_job" => memory / COUNT, "server_cpu_us_a_job" => (cpu * 1e6 / COUNT).round(1),
      "load_average" => load_average }
  end

  # Of the last minute, with the processes here: what else the machine did meanwhile. Nil where it is not told so.
  def load_average
    File.exist?("/proc/loadavg") ? Float(File.read("/proc/loadavg").split.first) : nil
  end

  def info(field)
    @server.say("INFO", "memory")[/^#{field}:(\d+)/, 1].to_i
  end

  def processor
    @server.say("INFO", "cpu").scan(/^used_cpu_(?:sys|user):([\d.]+)/).flatten.sum(&:to_f)
  end
end

contenders = [false, true].flat_map do |killing|
  [["Sidekiq", true], ["Sidekiq on Dehydrator", false]].map do |name, plain|
    Contender.new(name, plain: plain, killing: killing).run
  end
end
puts JSON.pretty_generate(contenders)
