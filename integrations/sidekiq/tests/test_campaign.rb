# frozen_string_literal: true

require_relative "helper"
require_relative "pair"

# With CAMPAIGN: jobs that run once, with `reliable!`, though workers are killed all the time, the server is killed twice,
# and fails over. Prints the figures, also those of Sidekiq without the gem.
class CampaignTest < Minitest::Test
  JOBS = Integer(ENV.fetch("CAMPAIGN", "0"))
  SECONDS = [JOBS / 200, 10].max
  EVERY = 1.5
  LEASE = 5

  # In seconds: a worker settles a job soon after it, and not before the server is there again, and it knows.
  SETTLES = 0.1
  RECONNECTS = 3

  def test_none_is_lost_or_early_and_only_what_was_in_hand_runs_twice
    skip "CAMPAIGN=10000" unless JOBS.positive?
    puts "Sidekiq #{Sidekiq::VERSION}, #{JOBS} jobs in #{SECONDS} s"
    figures = [true, false].to_h { |plain| [plain, run_jobs(plain)] }
    ours = figures[false]
    assert_equal [0, 0, 0], ours.values_at(:lost, :early, :unexplained)
  end

  def run_jobs(plain)
    @plain = plain
    @servers = Pair.new
    @killed = {}
    @away = []
    @workers = Array.new(3) { worker }
    producer = produce
    trouble
    wait_until { Process.wait(producer, Process::WNOHANG) }
    wait_until { keep_workers && empty? }
    sleep 1
    @workers.each(&:stop)
    @workers = []
    tell(figures)
  ensure
    @workers&.each { |one| one.kill if one.running? }
    @servers&.close
  end

  def tell(figures)
    puts "#{@plain ? "plain" : "reliable!"}: #{figures.map { |name, value| "#{name} #{value}" }.join(", ")}"
    figures
  end

  def worker
    SidekiqProcess.new(@servers, plain: @plain, reliable: @plain ? nil : LEASE)
  end

  def produce
    environment = { "REDIS_URL" => @servers.url, "DONE" => "#{@servers.folder}/done", "PLAIN" => @plain ? "1" : nil,
                    "RELIABLE" => @plain ? nil : LEASE.to_s }
    log = ["#{@servers.folder}/producer.log", "a"]
    spawn(environment, RUBY, "-W0", "-I", GEM, "#{__dir__}/producer_program.rb", JOBS.to_s, SECONDS.to_s, out: log, err: log)
  end

  # Kills workers until the last jobs are pushed.
  def trouble
    start = Time.now.to_f
    troubles = { 0.3 => :restart, 0.5 => :restart, 0.7 => :fail_over }
    while Time.now.to_f < start + SECONDS
      sleep EVERY
      kill_worker
      share, what = troubles.first
      next unless share && Time.now.to_f > start + share * SECONDS

      troubles.delete(share)
      from = Time.now.to_f
      @servers.send(what)
      @away << (from..Time.now.to_f + RECONNECTS)
    end
  end

  # A worker that starts while the server is away ends at once.
  def keep_workers
    @workers.map! { |one| one.running? ? one : worker }
  end

  def kill_worker
    keep_workers
    oldest = @workers.shift
    @killed[oldest.pid] = Time.now.to_f
    oldest.kill
    @workers << worker
  end

  def empty?
    lists = %w[queue:default dehydrator:in:default].sum { |key| ask("LLEN", key) }
    sets = %w[schedule retry].sum { |key| ask("ZCARD", key) }
    ours = %w[dehydrator:queue:default schedule:default retry:default].sum { |key| ask("DEHYDRATOR.LEN", key) }
    (lists + sets + ours).zero?
  end

  def ask(*words)
    Integer(@servers.primary.say(*words).delete_prefix(":"))
  end

  def figures
    lines = File.readlines("#{@servers.folder}/done").map(&:split)
    began, ended, again = %w[began ended again].map { |kind| lines.select { |line| line[0] == kind }.group_by { |line| line[1].to_i } }
    twice = ended.select { |_, runs| runs.size > 1 }
    sent, others = twice.partition { |number, _| again.key?(number) }
    in_hand, unexplained = others.partition { |_, runs| runs[0...-1].all? { |run| in_hand?(run) } }
    unexplained.each { |number, runs| puts "#{number}: #{runs}, #{began[number]}" }
    { kills: @killed.size, lost: JOBS - ended.size, early: began.values.flatten(1).count { |line| line[4].to_f < -0.002 },
      cut_off_and_run_again: began.count { |number, runs| runs.size > (ended[number] || []).size && ended.key?(number) },
      twice: twice.size, in_hand: in_hand.size, pushed_again: sent.size, unexplained: unexplained.size }
  end

  # Its worker was killed before the server knew that it was done.
  def in_hand?(run)
    at, killed = run[2].to_f, @killed[run[3].to_i]
    return false unless killed

    killed - at < SETTLES || @away.any? { |time| time.cover?(killed) && at > time.begin - SETTLES }
  end
end
