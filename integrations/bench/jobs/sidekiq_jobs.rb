# frozen_string_literal: true

# Sidekiq. REDIS_URL is the server; BENCH_LEASE is for how many seconds jobs are leased, with our gem.

require "sidekiq"

unless ENV["BENCH_LEASE"].empty?
  require "sidekiq-dehydrator"
  Sidekiq::Dehydrator.reliable!(lease: Float(ENV["BENCH_LEASE"]))
end

# See note.py.
class Note
  include Sidekiq::Job

  def perform(id, due)
    started = Time.now.to_f
    sleep(Float(ENV["BENCH_WORK"]))
    File.open("#{ENV["BENCH_NOTES"]}/#{Process.pid}", "a") { |file| file.syswrite("#{id} #{due} #{started}\n") }
  end
end

if ARGV == ["send"]
  File.foreach(ENV["BENCH_PLAN"]).each_slice(1000) do |lines|
    jobs = lines.map(&:split).map { |id, due| [id, Float(due)] }
    Sidekiq::Client.push_bulk("class" => Note, "args" => jobs, "at" => jobs.map(&:last))
  end
end
