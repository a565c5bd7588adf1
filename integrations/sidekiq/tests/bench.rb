# frozen_string_literal: true

# Compares Sidekiq's own poller with this gem, one after the other, on the same machine with the same jobs: lateness, the
# server's memory and CPU time, and the numbers of lost and repeated jobs, also while processes are killed that take
# nothing from the queue and, with Sidekiq's poller, only poll for due jobs.
#
# usage: bench.rb file [jobs [seconds]]        default: 20000 jobs that come due within a minute
#
# Writes JSON in the format of integrations/bench: seconds and bytes.

require "date"
require "etc"
require "json"
require "sidekiq"
require_relative "processes"
require_relative "servers"

COUNT = Integer(ARGV[1] || 20_000)
SECONDS = Float(ARGV[2] || 60)
WORKERS = 2
THREADS = 5
# Sidekiq's poller waits for 10 to 15 seconds before it begins.
AHEAD = 20.0
# Tolerance for readings of different clocks.
EARLY = 0.001

Sidekiq.logger.level = Logger::ERROR

# The load by other programs: if they use the same cores, the results are meaningless.
class Noise
  TICKS_A_SECOND = 100.0

  def initialize
    @began, @busy, @own = now, busy, own
  end

  # Returns the share of all cores, until now.
  def part
    (busy - @busy - (own - @own)) / (now - @began) / Etc.nprocessors
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def own
    times = Process.times
    times.utime + times.stime + times.cutime + times.cstime
  end

  # Returns the busy time of all cores since the machine was started: all except idle time and waiting for a disk.
  def busy
    ticks = File.foreach("/proc/stat").first.split.drop(1).first(8).map(&:to_i)
    (ticks.sum - ticks[3] - ticks[4]) / TICKS_A_SECOND
  end
end

class Contender
  def initialize(name, plain:, killing:, options: [])
    @name = name
    @plain = plain
    @killing = killing
    @options = options
  end

  def run
    @server = RealServer.new("--appendfsync", "everysec", *@options)
    noise = Noise.new
    result = begin
      measured
    ensure
      @server.close
    end
    # Our own children are counted after they have ended.
    result.merge("others" => noise.part)
  end

  private

  def measured
    # Start them before anything is due: loading takes long on a busy machine.
    processes = Array.new(WORKERS) { SidekiqProcess.new(@server, plain: @plain, threads: THREADS) }
    wait_until { @server.say("SCARD", "processes") == ":#{WORKERS}" }
    before = info("used_memory")
    start = put_off
    memory = info("used_memory") - before
    cpu = processor
    kills = @killing ? kill_until(start + SECONDS) : 0
    settle(start)
    processes.each(&:stop)
    described(memory, processor - cpu, kills)
  end

  # Schedules in a separate process, because the gem cannot be unloaded.
  def put_off
    start = Time.now.to_f + AHEAD
    program = "require '#{__dir__}/jobs'; " \
              "(0...#{COUNT}).each_slice(1000) { |some| moments = some.map { |n| #{start} + n * #{SECONDS} / #{COUNT} }; " \
              "Sidekiq::Client.push_bulk('class' => Note, 'args' => some.zip(moments), 'at' => moments) }"
    environment = { "REDIS_URL" => @server.url, "PLAIN" => @plain ? "1" : nil }
    raise "the jobs could not be put off" unless system(environment, RUBY, "-W0", "-I", GEM, "-e", program, out: File::NULL)

    start
  end

  # With the poller on, and no other work: so jobs can only be lost between the set and the queue.
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

  def described(memory, seconds, kills)
    ran = done(@server)
    times = ran.map(&:first).tally.values
    late = ran.sort_by(&:last).uniq(&:first).map(&:last)
    outcome = { "jobs" => COUNT, "executions" => ran.size, "once" => times.count(1), "twice" => times.count(2),
                "more" => times.count { |count| count > 2 }, "never" => COUNT - times.size,
                "early" => late.count { |one| one < -EARLY }, "earliest" => late.first,
                "p50" => late[late.size / 2], "p99" => late[late.size * 99 / 100], "most" => late.last }
    { "contender" => @name, "versions" => "sidekiq #{Sidekiq::VERSION}, ruby #{RUBY_VERSION}", "date" => Date.today.iso8601,
      "server" => @server.version, "load" => { "jobs" => COUNT, "first" => AHEAD, "last" => AHEAD + SECONDS, "work" => 0 },
      "outcome" => outcome, "killed" => kills, "server_bytes" => memory.fdiv(COUNT), "server_seconds" => seconds }
  end

  def info(field)
    @server.info("memory", field).to_i
  end

  def processor
    @server.say("INFO", "cpu").scan(/^used_cpu_(?:sys|user):([\d.]+)/).flatten.sum(&:to_f)
  end
end

CONTENDERS = {
  "sidekiq" => ["Sidekiq", []],
  "sidekiq-dehydrator" => ["Sidekiq on Dehydrator", []],
  "sidekiq-dehydrator-intervals" => ["Sidekiq on Dehydrator, `wake-interval` 20 ms", ["--dehydrator.wake-interval", "20"]]
}.freeze

results = { "quiet" => false, "poller" => true }.each_with_object({}) do |(scenario, killing), told|
  CONTENDERS.each do |key, (name, options)|
    next if killing && options.any?

    result = Contender.new(name, plain: key == "sidekiq", killing: killing, options: options).run
    told["#{key} #{scenario}"] = result.merge("scenario" => scenario)
    puts "#{key} #{scenario}: #{JSON.generate(result)}"
  end
end
File.write(ARGV.fetch(0), "#{JSON.pretty_generate(results)}\n")
