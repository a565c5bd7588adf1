# frozen_string_literal: true

require_relative "helper"
require "sidekiq/scheduled"

# Scheduled jobs, and operations on them while they wait.
class JobsTest < DehydratorTest
  # What Sidekiq by itself would have in the queue, of the same job: put into its own set, and taken by its own poller.
  def by_sidekiq(job)
    ask("ZADD", "schedule", (Time.now.to_f - 1).to_s, Sidekiq.dump_json(job))
    words = Sidekiq::VERSION.to_i >= 7 ? [Sidekiq.default_configuration] : []
    Sidekiq::Scheduled::Enq.new(*words).enqueue_jobs(["schedule"])
    Sidekiq.load_json(ask("RPOP", "queue:default"))
  end

  def test_the_queue_gets_what_sidekiq_itself_would_push
    before = Time.now.to_f
    jid = Note.perform_in(5, 17, { "text" => "ä", "list" => [], "number" => 0.1, "big" => 2**60 })
    job = waits(jid).item
    wait_until { queue.size == 1 }
    came = Sidekiq.load_json(ask("RPOP", "queue:default"))
    expected = by_sidekiq(job)
    moment = came.delete("enqueued_at")
    assert_kind_of expected.delete("enqueued_at").class, moment
    moment /= 1000.0 if Sidekiq::VERSION.to_i >= 8
    assert_includes -0.002..120, moment - before - 5
    assert_equal expected, came
    assert_equal %w[default], ask("SMEMBERS", "queues")
    assert_equal 0, ask("EXISTS", "schedule")
  end

  def test_nothing_is_put_off_for_a_moment_before_its_own
    random = Random.new(3)
    moments = Array.new(300) { Time.now.to_f + 1000 + random.rand }
    jids = moments.map { |at| Note.perform_at(at, 1, 0) }
    early = jids.zip(moments).map { |jid, at| at - waits(jid).score }
    assert_operator early.max, :<=, 1e-6
    assert_operator early.min, :>=, -60
  end

  # A new id each time, like a caller that retries.
  def many_jobs(count, queue = "default")
    (1..count).map { |n| [{ "class" => "Note", "args" => [n, 0], "jid" => SecureRandom.hex(12), "queue" => queue }, Time.now.to_f + n - 20] }
  end

  def test_a_bulk_for_which_there_is_no_room_is_refused_as_a_whole
    ask("DEHYDRATOR.LIMIT", "schedule:q", "LENGTH", 1500)
    error = assert_raises(Sidekiq::Dehydrator::Refused) do
      Sidekiq::Client.push_bulk("class" => Note, "queue" => "q", "args" => [[1, 0]] * 1000, "at" => Time.now.to_f + 100)
      Sidekiq::Client.push_bulk("class" => Note, "queue" => "q", "args" => [[1, 0]] * 1000, "at" => Time.now.to_f + 100)
    end
    assert_match(/schedule:q/, error.message)
    assert_equal 1000, scheduled.size
    put = ->(jobs) { Sidekiq.redis { |conn| Sidekiq::Dehydrator::Waiting::SCHEDULE.put(conn, jobs) } }
    jobs = many_jobs(40) + many_jobs(2500, "q")
    assert_raises(Sidekiq::Dehydrator::Refused) { put.call(jobs) }
    sleep 0.1
    # Those that are due are in the queue at once.
    assert_equal [1000, 20, 20], [scheduled.size, queue.size, queue("q").size]
    ask("DEHYDRATOR.LIMIT", "schedule:q", "LENGTH", 0)
    2.times { put.call(jobs) }
    assert_equal 3540, scheduled.size + queue.size + queue("q").size - duplicates
  end

  # Those that were due, and so in the queue, when they were put off again.
  def duplicates
    %w[default q].sum { |name| queue(name).map(&:jid).then { |jids| jids.size - jids.uniq.size } }
  end

  def test_jobs_run_once_and_none_early
    sidekiq
    20.times { |number| Note.perform_in(0.5 + number / 10.0, number, Time.now.to_f + 0.5 + number / 10.0) }
    Sidekiq::Client.push_bulk("class" => Note, "args" => (20...40).map { |number| [number, Time.now.to_f + 1] },
                              "at" => Time.now.to_f + 1)
    wait_until { done(@server).size == 40 }
    assert_equal (0...40).to_a, done(@server).map(&:first).sort
    assert_operator done(@server).map(&:last).min, :>=, -0.002
  end

  def test_a_job_that_fails_waits_among_the_retries_and_runs_again
    sidekiq
    Flaky.perform_async(1, Time.now.to_f, 1)
    wait_until { retries.size == 1 }
    assert_equal 0, ask("EXISTS", "retry")
    entry = retries.first
    assert_equal ["Flaky", "again", 0], [entry.klass, entry.item["error_message"], entry.item["retry_count"]]
    assert_equal [entry.jid], retries.fetch(entry.score, entry.jid).map(&:jid)
    assert_equal 0, scheduled.size
    assert_equal 1, Sidekiq::Stats.new.retry_size
    assert_includes 0..600, entry.latency
    # It is not waited for: Sidekiq adds seconds by chance.
    entry.retry
    wait_until { done(@server).size == 2 }
    assert_equal 0, retries.size
  end

  def test_a_retry_for_which_there_is_no_room_waits_in_sidekiqs_own_set_until_there_is
    ask("DEHYDRATOR.LIMIT", "retry:default", "LENGTH", 1)
    ask("DEHYDRATOR.PUSH", "retry:default", 600_000, "{}", "x")
    sidekiq(poll: 0.2)
    Flaky.perform_async(1, Time.now.to_f, 1)
    wait_until { ask("ZCARD", "retry") == 1 }
    ask("DEHYDRATOR.LIMIT", "retry:default", "LENGTH", 0)
    wait_until { ask("ZCARD", "retry").zero? }
    retries.find { |entry| entry.klass == "Flaky" }&.retry
    wait_until { done(@server).size == 2 }
  end

  def test_what_waits_is_found_deleted_and_given_another_moment
    first, second, third = [100, 200, 300].map { |delay| Note.perform_in(delay, delay, 0) }
    assert_equal 3, scheduled.size
    assert_equal [third, second, first], scheduled.map(&:jid)
    assert_nil waits(first).item["enqueued_at"]
    # As Sidekiq's own: true by redis-rb, a number by redis-client.
    ask("ZADD", "schedule", 1, "{}")
    sidekiqs = Sidekiq.redis { |conn| conn.zrem("schedule", "{}") }
    assert_equal sidekiqs, waits(second).delete
    refute waits(second)
    entry = waits(third)
    assert_equal [third], scheduled.fetch(entry.score).map(&:jid)
    assert_equal [third], scheduled.fetch((entry.score - 1)..(entry.score + 1)).map(&:jid)
    entry.reschedule(Time.now + 50)
    assert_in_delta Time.now.to_f + 50, waits(third).score, 30
    assert_equal [first, third], scheduled.map(&:jid)
    assert_equal [third], scheduled.scan("300,0").map(&:jid)
    assert scheduled.delete(waits(third).score, third)
    assert_equal 1, scheduled.size
    scheduled.clear
    assert_equal [0, 0], [scheduled.size, ask("DEHYDRATOR.LEN", "schedule:default")]
    # Scheduled jobs arrive after that too.
    Note.perform_in(0.05, 1, 0)
    wait_until { queue.size == 1 }
  end

  def test_what_waits_is_run_now_and_says_when_it_came
    jid = Note.perform_in(100, 1, 0)
    waits(jid).add_to_queue
    assert_equal 1, queue.size
    assert_operator queue.first.latency, :<, 60
    assert_equal 0, scheduled.size
  end

  def test_what_is_killed_is_among_the_dead_and_its_handlers_hear_of_it
    heard = []
    handler = ->(job, _) { heard << job["jid"] }
    Sidekiq.respond_to?(:default_configuration) ? Sidekiq.default_configuration.death_handlers << handler : Sidekiq.death_handlers << handler
    jid = Note.perform_in(100, 1, 0)
    waits(jid).kill
    assert_equal [[jid], [jid], 0], [heard, Sidekiq::DeadSet.new.map(&:jid), scheduled.size]
    Sidekiq::DeadSet.new.first.retry
    assert_equal [jid], queue.map(&:jid)
  end

  def test_all_retries_are_run_and_all_are_killed
    put = lambda do |count|
      count.times { |n| retries.schedule(Time.now + 100, "class" => "Note", "args" => [n, 0], "jid" => "r#{n}", "queue" => "q#{n % 2}", "retry_count" => 3) }
    end
    put.call(4)
    ask("DEHYDRATOR.PAUSE", "retry:q1")
    retries.retry_all
    wait_until { queue("q0").size == 2 }
    assert_equal 2, retries.size
    assert_equal [2, 2], queue("q0").map { |job| job["retry_count"] }
    retries.kill_all
    assert_equal [0, 2], [retries.size, Sidekiq::DeadSet.new.size]
  end

  def test_all_are_listed_last_first_in_pages_of_any_size
    start = Time.now.to_f + 1000
    # Pages are of 500. Many have one moment.
    moments = (0...1700).map { |n| start + (n < 600 ? 5 : n % 97) }
    Sidekiq::Client.push_bulk("class" => Note, "args" => moments.map { |at| [1, at] }, "at" => moments)
    Sidekiq::Client.push_bulk("class" => Note, "queue" => "q", "args" => moments.map { |at| [2, at] }, "at" => moments)
    listed = scheduled.to_a
    assert_equal 3400, listed.map(&:jid).uniq.size
    assert_equal listed.map(&:score).sort.reverse, listed.map(&:score)
    scheduled.each { |entry| entry.delete if entry.args[0] == 1 }
    assert_equal [2], scheduled.map { |entry| entry.args[0] }.uniq
    assert_equal 1700, scheduled.size
  end

  def test_the_last_due_is_found_without_reading_all
    start = Time.now.to_f + 1000
    [3000, 1, 1].each_with_index do |count, step|
      moments = (0...count).map { |n| start + step * 1e8 + n / 50.0 }
      Sidekiq::Client.push_bulk("class" => Note, "args" => moments.map { |at| [1, at] }, "at" => moments)
      before = @server.info("stats", "total_net_output_bytes").to_i
      assert_in_delta moments.last, scheduled.first.score, 0.5
      read = @server.info("stats", "total_net_output_bytes").to_i - before
      assert_operator read, :<, 100_000
    end
    assert_equal 3002, scheduled.map(&:jid).uniq.size
  end

  def test_what_sidekiqs_own_set_still_holds_is_run_and_killed_with_the_others
    retries_by_hand = lambda do
      ask("ZADD", "retry", (Time.now.to_f + 50).to_s, '{"class":"Note","args":[1,0],"jid":"z","queue":"default","retry_count":2}')
      ask("ZADD", "retry", (Time.now.to_f + 40).to_s, "{not json")
      retries.schedule(Time.now + 60, "class" => "Note", "args" => [2, 0], "jid" => "y", "queue" => "default")
    end
    retries_by_hand.call
    assert_equal 3, retries.size
    retries.retry_all
    wait_until { queue.size == 2 }
    assert_equal ["{not json"], ask("ZRANGE", "retry", 0, -1)
    return if Sidekiq::JobSet.method_defined?(:pop_each)

    retries_by_hand.call
    retries.kill_all
    assert_equal [%w[y z], 1], [Sidekiq::DeadSet.new.map(&:jid).sort, retries.size]
  end

  def test_two_jobs_may_have_one_id_and_the_same_job_has_one_moment
    job = { "class" => "Note", "args" => [1, 0], "jid" => "j", "queue" => "default" }
    scheduled.schedule(Time.now + 100, job)
    scheduled.schedule(Time.now + 200, job)
    assert_equal 1, scheduled.size
    assert_in_delta Time.now.to_f + 200, waits("j").score, 60
    scheduled.schedule(Time.now + 300, job.merge("args" => [2, 0]))
    assert_equal [[2, 0], [1, 0]], scheduled.map(&:args)
    waits("j").delete
    assert_equal [2, 0], waits("j").args
    assert_equal 1, scheduled.delete_by_jid(waits("j").score, "j") ? 1 : 0
    assert_equal 0, scheduled.size
  end

  def test_a_queue_that_was_deleted_is_named_again_when_it_holds_something
    Note.perform_in(5, 1, 0)
    queue.clear
    wait_until { queue.size == 1 }
    assert_equal [], ask("SMEMBERS", "queues")
    Sidekiq::Dehydrator::Takeover.new.enqueue_jobs
    assert_equal %w[default], ask("SMEMBERS", "queues")
  end

  def test_who_may_not_read_info_is_not_refused
    ask("ACL", "SETUSER", "anna", "on", ">x", "~*", "+@all", "-info")
    use(Struct.new(:url).new(@server.url.sub("redis://", "redis://anna:x@")))
    assert_raises(Sidekiq::Dehydrator::Errors::COMMAND) { ask("INFO") }
    assert_nil Sidekiq::Dehydrator.check
  end

  def test_a_server_without_the_module_is_named
    bare = RealServer.new(with_module: false)
    use(bare)
    error = assert_raises(Sidekiq::Dehydrator::ModuleMissing) { Note.perform_in(10, 1, 0) }
    assert_match(/libdehydrator/, error.message)
    assert_equal 0, ask("DBSIZE")
    Note.perform_async(1, 0)
    process = sidekiq
    wait_until { !process.running? }
    assert_match(/no module Dehydrator/, process.log)
    @processes.clear
  ensure
    bare&.close
  end
end
