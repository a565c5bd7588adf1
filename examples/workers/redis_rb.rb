# A worker with redis-rb 4.8 or 5. README.md describes it. Replace `work`.
require "redis"
require "securerandom"

URL, QUEUE = ENV.fetch("REDIS_URL", "redis://127.0.0.1:6379"), ENV.fetch("QUEUE", "{jobs}")
BLOCK_MS, LEASE_MS = ENV.fetch("BLOCK_MS", 5000).to_i, ENV.fetch("LEASE_MS", 60_000).to_i
RETRY_MS, DELIVERIES = ENV.fetch("RETRY_MS", 1000).to_i, ENV.fetch("DELIVERIES", 5).to_i
PASSING = /\A(BUSY|LOADING|READONLY|UNBLOCKED|NOREPLICAS|MISCONF)\b/

def work(id, job, deliveries)
  word, number = job.split
  sleep number.to_i / 1000.0 if word == "slow"
  raise "it was to fail" if word == "fail" && deliveries <= number.to_i

  ask STORE, "SADD", "#{QUEUE}:done", "#{id} #{deliveries} #{(Time.now.to_f * 1000).to_i}"
end

def connect
  Redis.new(url: URL, timeout: 5, read_timeout: BLOCK_MS / 1000.0 + 5, reconnect_attempts: 0)
end

def ask(server, *command, pause: 0.1)
  server.call(*command)
rescue Redis::BaseError => error
  raise if error.is_a?(Redis::CommandError) && !PASSING.match?(error.message)
  return [] if $stopping && command.first == "DEHYDRATOR.POLL"

  puts "#{command.first} again: #{error.message}"
  server.close
  sleep pause
  pause = [2 * pause, 2].min
  retry
end

def do_one(token, id, job, deliveries)
  working = Thread.new do
    work(id, job, deliveries)
    nil
  rescue StandardError => error
    error
  end
  until working.join(LEASE_MS / 3000.0)
    held, = ask SERVER, "DEHYDRATOR.RENEW", QUEUE, LEASE_MS, token, id
    working.raise("the lease is lost") if held.zero?
  end
  return ask(SERVER, "DEHYDRATOR.SETTLE", QUEUE, token, id) unless working.value

  puts "#{id} failed: #{working.value.message}"
  ask SERVER, "DEHYDRATOR.RELEASE", QUEUE, RETRY_MS * 2**(deliveries - 1), token, id
end

$stdout.sync = true
%w[TERM INT].each { |name| trap(name) { $stopping = true } }
SERVER, STORE = connect, connect
ask SERVER, "DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", "#{QUEUE}:dead"
until $stopping
  lease = ["COUNT", 1, "BLOCK", BLOCK_MS, "LEASE", LEASE_MS, "TOKEN", SecureRandom.uuid]
  elements = ask(SERVER, "DEHYDRATOR.POLL", QUEUE, *lease)
  elements.each { |id, job, deliveries, token| do_one(token, id, job, deliveries) }
end
