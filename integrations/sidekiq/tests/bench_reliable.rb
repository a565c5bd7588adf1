# frozen_string_literal: true

# Compares Sidekiq's BRPOP with `reliable!`, in turns, on the same machine: jobs a second, and the server's processor time.
#
# usage: bench_reliable.rb [jobs [rounds [ms]]]        default: 20000 jobs, 3 rounds; a job takes 0 ms

require_relative "processes"
require_relative "servers"

COUNT = Integer(ARGV[0] || 20_000)
ROUNDS = Integer(ARGV[1] || 3)
WORK = Float(ARGV[2] || 0) / 1000
SINGLE = 500

def processor(server)
  server.say("INFO", "cpu").scan(/^used_cpu_(?:sys|user):([\d.]+)/).flatten.sum(&:to_f)
end

def push(server, reliable, program)
  environment = { "REDIS_URL" => server.url, "PLAIN" => reliable ? nil : "1", "RELIABLE" => reliable ? "30" : nil }
  system(environment, RUBY, "-W0", "-I", GEM, "-r", "#{__dir__}/jobs.rb", "-e", program, out: File::NULL) || raise("no jobs were pushed")
end

def waiting(server, reliable)
  server.say(*(reliable ? %w[DEHYDRATOR.LEN dehydrator:queue:default] : %w[LLEN queue:default]))[1..].to_i
end

# Yields, and returns seconds and the server's processor time, in us a job.
def measured(server, count)
  cpu, start = processor(server), Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  seconds = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  [seconds, (processor(server) - cpu) * 1e6 / count]
end

def run(reliable)
  server = RealServer.new("--appendonly", "no")
  _, putting = measured(server, COUNT) do
    push(server, reliable, "(0...#{COUNT}).each_slice(1000) { |some| Sidekiq::Client.push_bulk('class' => Empty, 'args' => [[#{WORK}]] * some.size) }")
  end
  worker = SidekiqProcess.new(server, plain: !reliable, reliable: reliable ? 30 : nil, threads: 10)
  wait_until { waiting(server, reliable) < COUNT * 0.95 }
  left = waiting(server, reliable)
  seconds, doing = measured(server, left) { wait_until { waiting(server, reliable) < 50 } }
  wait_until { waiting(server, reliable).zero? }
  sleep 1
  _, single = measured(server, SINGLE) do
    push(server, reliable, "#{SINGLE}.times { Empty.perform_async(1); sleep 0.01 }")
  end
  sleep 1
  _, idle = measured(server, 1) { sleep 5 }
  worker.stop
  [left / seconds, putting, doing, single, idle / 5]
ensure
  server&.close
end

puts "#{RUBY_VERSION}, jobs a second, and us of the server: a job put, a job done, a job alone, a second without jobs"
ROUNDS.times do
  [false, true].each do |reliable|
    puts format("%-9s %6d %6.1f %6.1f %6.1f %6d", reliable ? "reliable!" : "BRPOP", *run(reliable))
  end
end
