#!/usr/bin/env ruby
# frozen_string_literal: true

# Delayed jobs for Sidekiq: they wait in a dehydrator, which moves them to the list on which Sidekiq's processes block.
#
# A queue of Sidekiq is a list of JSON. So the JSON waits in the dehydrator (ONDUE LIST), and is in the queue to the
# millisecond, whereas Sidekiq itself polls every few seconds. Sidekiq takes from the right, so ONDUE pushes to the LEFT.
# PULL cancels a job by its id. If a process dies during a job, Sidekiq handles that as usual: without Sidekiq Pro, the job
# is lost.
#
# Prints:
#
#     sidekiq: send mail 17
#     sidekiq: send mail 18
#     cancelled: send mail 19
#     sidekiq: send mail 20
#     nothing came early, nothing is left

require "json"
require "securerandom"
require "sidekiq"
require "sidekiq/api"
require "sidekiq/cli"

QUEUE = "demo:mail"
LATER = "{queue:demo:mail}:later"
REDIS = { url: ENV.fetch("REDIS_URL", "redis://127.0.0.1:6379") }.freeze
# Sidekiq's process writes the numbers of the jobs that it has done.
DONE, DOING = IO.pipe

class Mailer
  include Sidekiq::Worker
  sidekiq_options queue: QUEUE, retry: false

  def perform(number)
    puts "sidekiq: send mail #{number}"
    DOING.puts number
  end
end

# Like Mailer.perform_in, but to the millisecond.
def perform_in(server, delay_ms, worker, *args)
  job = worker.get_sidekiq_options.merge(
    "class" => worker.name, "args" => args, "jid" => SecureRandom.hex(12),
    "created_at" => Time.now.to_f, "enqueued_at" => Time.now.to_f + delay_ms / 1000.0
  )
  server.multi do |transaction|
    transaction.sadd("queues", [QUEUE])
    transaction.call(["DEHYDRATOR.PUSH", LATER, delay_ms, JSON.generate(job), job["jid"]])
  end
  job["jid"]
end

# Returns false if the job is in the queue already, or done.
def cancel(server, jid)
  !server.call(["DEHYDRATOR.PULL", LATER, jid]).nil?
end

$stdout.sync = true
# Sidekiq 6 uses calls that redis-rb 5 deprecates.
Redis.silence_deprecations = true
server = Redis.new(**REDIS)
server.del(LATER)
server.call(["DEHYDRATOR.ONDUE", LATER, "LIST", "queue:#{QUEUE}", "LEFT"])

# A Sidekiq process, as `sidekiq -q demo:mail -r ./this.rb` would start it.
sidekiq = fork do
  Sidekiq.logger.level = Logger::ERROR
  Sidekiq.configure_server { |config| config.redis = REDIS }
  options = { queues: [QUEUE], concurrency: 1, timeout: 5, environment: "production", labels: [], tag: "demo" }
  Sidekiq.options.merge!(options)
  launcher = Sidekiq::Launcher.new(Sidekiq.options)
  told = Queue.new
  trap("TERM") { told << :end }
  launcher.run
  told.pop
  launcher.stop
end

DOING.close

started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
took = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) - started }
left = -> { server.call(["DEHYDRATOR.LEN", LATER]) + server.llen("queue:#{QUEUE}") }
jobs = { 19 => 60_000, 17 => 400, 18 => 800 }.to_h { |number, delay| [number, perform_in(server, delay, Mailer, number)] }
raise "another order" if [DONE.gets, DONE.gets] != %W[17\n 18\n]
raise "it came early" if took.call < 0.8

puts "cancelled: send mail 19" if cancel(server, jobs[19])
cancelled = took.call
perform_in(server, 800, Mailer, 20)
raise "another job" if DONE.gets != "20\n"
raise "it came early" if took.call < cancelled + 0.8
raise "something is left" if left.call.positive?

Process.kill("TERM", sidekiq)
Process.wait(sidekiq)
puts "nothing came early, nothing is left"

server.del(LATER)
server.srem("queues", [QUEUE])
