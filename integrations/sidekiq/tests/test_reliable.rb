# frozen_string_literal: true

require "minitest/mock"
require_relative "helper"
require "sidekiq/paginator"

Sidekiq::Dehydrator.reliable!

# Queues as dehydrators: what Sidekiq's interface shows of them, and jobs that run.
class ReliableTest < DehydratorTest
  KEY = "dehydrator:queue:default"

  # Longer than a busy machine keeps a worker from running. What a killed one had comes soon to others with a short one.
  LEASE = 30
  SHORT = 4

  def worker(**options)
    sidekiq(reliable: LEASE, **options)
  end

  def slow
    skip "slow" if QUICK
  end

  def length(key = KEY)
    ask("DEHYDRATOR.LEN", key)
  end

  def numbers
    done(@server).map(&:first)
  end

  # A job as a client without the gem pushes it.
  def by_others(*jobs, queue: "default")
    ask("SADD", "queues", queue)
    ask("LPUSH", "queue:#{queue}", *jobs.map { |job| job.is_a?(String) ? job : Sidekiq.dump_json(job) })
  end

  def note(number, **fields)
    { "class" => "Note", "args" => [number, 0], "jid" => "j#{number}", "queue" => "default", "retry" => true,
      "enqueued_at" => Sidekiq::Dehydrator::Moment.enqueued_at(Time.now.to_f) }.merge(fields.transform_keys(&:to_s))
  end

  def test_jobs_are_pushed_as_sidekiq_would_but_not_into_lists
    jid = Note.perform_async(17, { "text" => "ä", "list" => [], "big" => 2**60 })
    jids = Sidekiq::Client.push_bulk("class" => Note, "queue" => "q", "args" => [[1, 0], [2, 0]])
    assert_equal [3, 0], [length + length("dehydrator:queue:q"), ask("EXISTS", "queue:default", "queue:q")]
    assert_equal %w[default q], ask("SMEMBERS", "queues").sort
    ours = Sidekiq.load_json(ask("DEHYDRATOR.LOOK", KEY, jid))
    theirs = Sidekiq.redis do |conn|
      conn.pipelined { |pipe| Sidekiq::Client.new.send(:atomic_push, pipe, [ours.dup]) }
      Sidekiq.load_json(conn.rpop("queue:default"))
    end
    assert_equal theirs.except("enqueued_at"), ours.except("enqueued_at")
    assert_kind_of theirs["enqueued_at"].class, ours["enqueued_at"]
    assert_equal jids.reverse, queue("q").map(&:jid)
  end

  def test_sidekiqs_interface_shows_the_jobs_that_wait
    before = Time.now.to_f
    jids = (0...4).map { |number| Note.perform_async(number, 0) }
    by_others(note(9))
    ask("DEHYDRATOR.POLL", KEY, "COUNT", 1, "LEASE", 60_000)
    stats = Sidekiq::Stats.new
    assert_equal [4, 4, { "default" => 4 }], [queue.size, stats.enqueued, stats.queues]
    assert_equal [9, 3, 2, 1], queue.map { |job| job.args[0] }
    [queue.latency, stats.default_queue_latency].each { |latency| assert_includes 0..(Time.now.to_f - before + 0.1), latency }
    assert_nil queue.find_job(jids[0])
    assert_equal [[1, 0], [9, 0]], [queue.find_job(jids[1]).args, queue.find_job("j9").args]
    assert queue.find_job(jids[1]).delete
    refute Sidekiq::JobRecord.new(ask("DEHYDRATOR.LOOK", KEY, jids[0]), "default").delete
    refute Sidekiq::JobRecord.new("{not json", "default").delete
    assert_equal [9, 3, 2], queue.map { |job| job.args[0] }
    queue.clear
    assert_equal [0, [], 1], [queue.size, queue.to_a, length]
    assert_equal 0, queue.latency
  end

  def test_a_queue_is_shown_page_by_page
    page = Object.new.extend(Sidekiq::Paginator)
    Sidekiq::Client.push_bulk("class" => Note, "args" => (0...1200).map { |number| [number, 0] })
    ask("DEHYDRATOR.POLL", KEY, "COUNT", 2, "LEASE", 60_000)
    by_others(note(1200))
    numbers = ->(*words) { page.page("queue:default", *words).then { |at, all, jobs| [at, all, jobs.map { |job| Sidekiq.load_json(job)["args"][0] }] } }
    assert_equal [1, 1199, [1200, 1199, 1198]], numbers.call("1", 3)
    assert_equal [400, 1199, [3, 2]], numbers.call("400", 3)
    assert_equal [2, 1199, [5, 6, 7]], numbers.call("2", 3, { reverse: true })
    return if Sidekiq::VERSION.to_i < 8

    assert_equal [["default", 1199]], Sidekiq::Stats.new.queue_summaries.map { |one| [one.name, one.size] }
  end

  def test_two_jobs_may_have_one_id_and_one_that_is_sent_again_is_one
    Note.set("jid" => "j").perform_async(1, 0)
    Sidekiq::Client.push("class" => Note, "args" => [2, 0], "jid" => "j")
    Sidekiq::Client.push("class" => Note, "args" => [3, 0], "jid" => "j")
    assert_equal 3, queue.size
    payload = [{ "class" => "Note", "args" => [4, 0], "jid" => "k", "queue" => "default" }]
    2.times { Sidekiq.redis { |conn| Sidekiq::Dehydrator::Queues.push(conn, payload, moment: 1) } }
    assert_equal 4, queue.size
    queue.each(&:delete)
    assert_equal 0, queue.size
  end

  def test_a_bulk_for_which_there_is_no_room_is_refused_as_a_whole
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 3)
    error = assert_raises(Sidekiq::Dehydrator::Refused) { Sidekiq::Client.push_bulk("class" => Note, "args" => [[1, 0]] * 5) }
    assert_match(/#{KEY}/, error.message)
    assert_equal 0, queue.size
    Sidekiq::Client.push_bulk("class" => Note, "args" => [[1, 0]] * 3)
    assert_raises(Sidekiq::Dehydrator::Refused) { Note.perform_async(1, 0) }
  end

  def test_whatever_comes_and_however_it_runs_once
    by_others(note(0), note(1), note(1, args: [2, 0]), "{not json", note(3, jid: nil), note(4, jid: nil, args: [3, 1]))
    worker
    wait_until { numbers.size == 5 }
    wait_until { Sidekiq::DeadSet.new.size == 1 }
    Note.perform_async(5, 0)
    Note.perform_in(0.3, 6, 0)
    by_others(note(7))
    Flaky.perform_async(8, 0, 1)
    wait_until { retries.size == 1 }
    retries.first.retry
    wait_until { numbers.size == 10 }
    assert_equal [0, 1, 2, 3, 3, 5, 6, 7, 8, 8], numbers.sort
    wait_until { length.zero? }
    assert_equal [0, 0], [ask("EXISTS", "queue:default"), ask("EXISTS", "dehydrator:in:default")]
  end

  def test_jobs_of_other_clients_and_due_jobs_come_at_once
    worker
    wait_until { Sidekiq::ProcessSet.new(false).size == 1 }
    wait_until { @server.say("CLIENT", "LIST").include?("cmd=blmove") }
    20.times do |number|
      by_others(note(number, args: [number, Time.now.to_f]))
      wait_until { numbers.size == number + 1 }
    end
    # A worker that looked every two seconds would be later: each job is pushed when the one before has run.
    assert_operator done(@server).map(&:last).sort[10], :<, 1
  end

  def test_a_list_is_moved_once_by_several_and_what_is_refused_stays
    jobs = (0...500).map { |n| Sidekiq.dump_json("class" => "Note", "args" => [n, 0], "jid" => "j#{n % 400}") } + ["{not json", "[1]"]
    ask("LPUSH", "queue:default", *jobs)
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 300)
    drain = -> { Sidekiq::Dehydrator::ListThread.drain(Sidekiq::Dehydrator::OwnConnection.new, "default") }
    told = Array.new(4) { Thread.new(&drain) }.map(&:value)
    # One that finds both lists empty, because another has their jobs in its hands, is done.
    reasons = told.filter_map(&:last)
    refute_empty reasons
    reasons.each { |why| assert_match(/LIMIT allows/, why) }
    left = -> { %w[queue:default dehydrator:in:default].sum { |list| ask("LLEN", list) } }
    assert_equal [300, 202], [ask("DEHYDRATOR.LEN", KEY), left.call]
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 0)
    Array.new(4) { Thread.new(&drain) }.each(&:join)
    assert_equal 0, left.call
    assert_equal jobs.sort, Sidekiq::Dehydrator::Queues.each_from_oldest("default").to_a.sort
  end

  # A process that is killed before it gives back what was refused.
  def test_nothing_is_taken_from_a_list_that_others_leave_no_room_for
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 3)
    by_others(*(0...3).map { |number| note(number) })
    room, others = Sidekiq::Dehydrator::Waiting.method(:room), %w[a b c]
    racing = lambda do |*words|
      room.call(*words).tap { ask("DEHYDRATOR.MPUSH", KEY, *others.shift(3).flat_map { |id| [0, "x", id] }) if words.last * others.size > 0 }
    end
    conn = Sidekiq::Dehydrator::OwnConnection.new
    conn.define_singleton_method(:call) { |*words| words.first == "RPUSH" ? raise("killed") : super(*words) }
    _, why = Sidekiq::Dehydrator::Waiting.stub(:room, racing) { Sidekiq::Dehydrator::ListThread.drain(conn, "default") }
    assert_match(/LIMIT allows/, why)
    assert_equal 3, (%w[queue:default dehydrator:in:default].sum { |list| ask("LLEN", list) })
  end

  def test_a_job_longer_than_its_lease_runs_once
    slow
    worker(threads: 1, reliable: SHORT)
    Long.perform_async(1, 2 * SHORT)
    Note.perform_async(2, 0)
    wait_until { numbers.size == 2 }
    assert_equal [1, 2], numbers
    wait_until { length.zero? }
  end

  def test_what_a_killed_worker_had_comes_again_and_what_kills_them_is_dead_at_last
    slow
    Deadly.perform_async(1)
    Note.perform_async(2, 0)
    # One thread: otherwise they have the other job too.
    3.times do |kill|
      process = worker(threads: 1, reliable: SHORT)
      wait_until { !process.running? }
      @processes.clear
      assert_equal kill + 1, numbers.count(1)
    end
    worker(threads: 1, reliable: SHORT)
    wait_until { Sidekiq::DeadSet.new.size == 1 }
    assert_equal [3, 1, 0], [numbers.count(1), numbers.count(2), length]
    dead = Sidekiq::DeadSet.new.first
    assert_equal ["Deadly", "Sidekiq::Dehydrator::PoisonPill"], [dead.klass, dead["error_class"]]
    assert_match(/3 workers died/, dead["error_message"])
  end

  def test_a_worker_that_stops_gives_back_what_it_has_in_its_place_and_uncounted
    slow
    process = worker(threads: 2, timeout: 1)
    2.times { |number| Long.perform_async(number, 60) }
    wait_until { numbers.size == 2 }
    3.times { |number| Note.perform_async(2 + number, 0) }
    process.stop
    @processes.clear
    assert_equal [4, 3, 2, 1, 0], queue.map { |job| job.args[0] }
    assert_equal [0] * 5, ask("DEHYDRATOR.RANGE", KEY, "-", "+")[1].map { |row| row[3] }
  end

  def test_a_worker_of_many_queues_stops_as_soon_as_one_of_one
    process = worker(queue: (0...12).map { |number| "q#{number}" })
    (0...12).each { |number| Sidekiq::Client.push("class" => Note, "args" => [number, 0], "queue" => "q#{number}") }
    wait_until { numbers.size == 12 }
    began = Time.now.to_f
    process.stop
    @processes.clear
    # It waits for the connections that sleep in the server, 2 s each, together.
    assert_operator Time.now.to_f - began, :<, 10
  end

  def test_an_interrupted_job_goes_on
    slow
    skip "Sidekiq 7.3" if Sidekiq::VERSION.to_f < 7.3
    process = worker(timeout: 1)
    Steps.perform_async
    wait_until { numbers.size > 10 }
    process.stop
    @processes.clear
    assert_equal 1, queue.size
    worker
    wait_until { numbers.size >= 100 && length.zero? }
    assert_equal (0...100).to_a, numbers.uniq
    assert_operator numbers.size, :<=, 101
  end

  # Pushes jobs to both, and returns in which order their queues were served, by one thread.
  def served(count, *queues)
    %w[low high].each { |name| Sidekiq::Client.push_bulk("class" => Note, "queue" => name, "args" => [[name.size, 0]] * count) }
    process = worker(queue: queues, threads: 1)
    wait_until { numbers.size == 2 * count }
    process.kill
    @processes.clear
    numbers.map { |number| number == 4 ? "high" : "low" }
  ensure
    FileUtils.rm_f(@server.folder + "/done")
  end

  def test_queues_are_served_in_their_order
    assert_equal ["high"] * 10 + ["low"] * 10, served(10, "high", "low")
  end

  def test_queues_are_served_at_random
    assert_includes 10..50, served(60, "high,1", "low,1").first(60).count("high")
  end

  def test_queues_are_served_by_their_weights
    slow
    assert_includes 31..58, served(60, "high,3", "low,1").first(60).count("high")
  end

  def test_capsules_have_queues_and_threads_of_their_own
    skip "Sidekiq 7" if Sidekiq::VERSION.to_i < 7
    4.times { |number| Sidekiq::Client.push("class" => Long, "queue" => "single", "args" => [number, 0.4]) }
    process = worker(reliable: SHORT, more: { "CAPSULE" => "1" })
    wait_until { numbers.size == 1 }
    Sidekiq::Client.push_bulk("class" => Note, "args" => (10...20).map { |number| [number, 0] })
    wait_until { numbers.size >= 12 }
    # Of the others, one at a time runs.
    assert_operator numbers.count { |number| number < 4 }, :<=, 2
    assert_equal (10...20).to_a, numbers.select { |number| number >= 10 }.sort
    process.kill
    @processes.clear
    held = numbers.last
    worker(reliable: SHORT, more: { "CAPSULE" => "1" })
    wait_until { numbers.uniq.size == 14 && length("dehydrator:queue:single").zero? }
    assert_equal 15, numbers.size
    assert_equal 2, numbers.count(held)
  end

  def test_active_jobs_run_now_later_and_again
    ENV["ACTIVE_JOB"] = "1"
    load "#{__dir__}/jobs.rb" unless defined?(Active)
    now = Time.now.to_f
    Active.perform_later(1, now)
    Active.set(wait: 0.3).perform_later(2, now + 0.3)
    Active.perform_later(3, now, fails: true)
    Active.set(queue: "other").perform_later(4, now)
    assert_equal 3, queue.size + queue("other").size
    worker(queue: %w[default other], more: { "ACTIVE_JOB" => "1" })
    wait_until { numbers.size == 5 && length.zero? }
    assert_equal [1, 2, 3, 3, 4], numbers.sort
    assert_operator done(@server).map(&:last).min, :>=, -0.002
  rescue LoadError
    skip "no Active Job"
  ensure
    ENV.delete("ACTIVE_JOB")
  end

  def test_a_queue_is_limited_over_all_processes
    limits = '{ "default" => { held: 2 }, "calls" => { rate: 5, per: 1 } }'
    2.times { worker(queue: %w[default calls], limits: limits) }
    wait_until { ask("DEHYDRATOR.INFO", KEY).then { |info| (info.is_a?(Hash) ? info : info.each_slice(2).to_h)["held-limit"] == 2 } }
    start = Time.now.to_f
    6.times { |number| Long.perform_async(number, 0.3) }
    Sidekiq::Client.push_bulk("class" => Note, "queue" => "calls", "args" => (10...20).map { |number| [number, start] })
    wait_until { numbers.size == 16 }
    assert_operator Time.now.to_f - start, :>=, 0.6
    assert_operator done(@server).select { |number, _| number >= 10 }.map(&:last).max, :>=, 0.99
  end

  # After `use`, this process has another configuration, with no middleware.
  def with_unique
    Sidekiq::Dehydrator::Unique.install
  end

  def test_a_unique_job_is_not_pushed_again_until_it_is_done
    with_unique
    assert Once.perform_async(1, 0, 1)
    assert_nil Once.perform_async(1, 0, 1)
    assert_nil Once.perform_in(5, 1, 0, 1)
    assert Once.perform_async(2, 0, 0)
    Sidekiq::Client.push_bulk("class" => Once, "args" => [[1, 0, 1], [3, 0, 0]])
    worker
    wait_until { retries.size == 1 }
    assert_nil Once.perform_async(1, 0, 1)
    retries.first.retry
    wait_until { numbers.size == 4 && length.zero? }
    assert_equal [1, 1, 2, 3], numbers.sort
    wait_until { length(Sidekiq::Dehydrator::Unique::KEY).zero? }
    assert Once.set(unique_for: 0.2).perform_in(0.1, 4, 0, 0)
    wait_until { length(Sidekiq::Dehydrator::Unique::KEY).zero? }
  end

  def test_a_unique_job_that_is_refused_is_not_kept_out_later
    with_unique
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 1)
    assert Once.perform_async(1, 0, 0)
    assert_raises(Sidekiq::Dehydrator::Refused) { Once.perform_async(2, 0, 0) }
    assert_raises(Sidekiq::Dehydrator::Refused) { Sidekiq::Client.push_bulk("class" => Once, "args" => [[3, 0, 0], [4, 0, 0]]) }
    ask("DEHYDRATOR.LIMIT", "schedule:default", "LENGTH", 1)
    Note.perform_in(60, 9, 0)
    assert_raises(Sidekiq::Dehydrator::Refused) { Once.perform_in(60, 5, 0, 0) }
    ask("DEHYDRATOR.LIMIT", KEY, "LENGTH", 0)
    assert_nil Once.perform_async(1, 0, 0)
    (2..5).each { |number| assert Once.perform_async(number, 0, 0), number }
  end

  def test_a_job_may_be_unique_until_it_begins
    slow
    with_unique
    assert OnceBegun.perform_async(1, 0.5)
    assert_nil OnceBegun.perform_async(1, 0.5)
    worker
    wait_until { numbers.size == 1 }
    assert OnceBegun.perform_async(1, 0.5)
    wait_until { numbers.size == 2 }
  end

  def test_all_goes_back_into_lists
    Sidekiq::Client.push_bulk("class" => Note, "args" => (0...500).map { |number| [number, 0] })
    by_others(note(500), note(501))
    ask("LMOVE", "queue:default", "dehydrator:in:default", "RIGHT", "LEFT")
    before = queue.map(&:value)
    ask("DEHYDRATOR.POLL", KEY, "COUNT", 1, "LEASE", 60_000)
    assert_equal 500, Sidekiq::Dehydrator.leave!
    jobs = ask("LRANGE", "queue:default", 0, -1)
    assert_equal 502, jobs.size
    assert_equal before.sort, (jobs - [jobs.find { |job| job.include?("j500") }]).sort
    assert_equal %w[queue:default queues], ask("KEYS", "*").sort
  end

  # Nothing is lost, and almost nothing runs twice.
  def test_none_is_lost_when_workers_are_killed
    count = QUICK ? 1500 : 10_000
    Sidekiq::Client.push_bulk("class" => Note, "args" => (0...count / 2).map { |number| [number, 0] })
    by_others(*(count / 2...count).map { |number| note(number) })
    workers = Array.new(2) { worker(reliable: SHORT) }
    kills = 0
    until numbers.uniq.size == count
      before = numbers.size
      sleep 1.5
      # On a busy machine, a worker takes longer to start.
      wait_until { numbers.size >= before + 300 || numbers.uniq.size == count }
      killed = workers.shift
      killed.kill
      @processes.delete(killed)
      kills += 1
      workers << worker(reliable: SHORT)
    end
    wait_until { length.zero? }
    puts "#{kills} kills, #{numbers.size - count} twice" if ENV["VERBOSE"]
    assert_equal (0...count).to_a, numbers.uniq.sort
  end
end
