# frozen_string_literal: true

require_relative "helper"

# Jobs that wait in Sidekiq's own sorted sets: taken over, and back.
class TakeoverTest < DehydratorTest
  TAKE = "Sidekiq::Dehydrator.take_over"
  LEAVE = "Sidekiq::Dehydrator.leave!"

  def fill(count, set: "schedule", from: Time.now.to_f + 600)
    (0...count).each_slice(1000) do |numbers|
      words = numbers.flat_map { |number| [(from + number / 100.0).to_s, Sidekiq.dump_json(job(number))] }
      ask("ZADD", set, *words)
    end
  end

  def job(number)
    { "class" => "Note", "args" => [number, 0.5, [], "ä"], "jid" => format("%024x", number), "queue" => "q#{number % 3}",
      "created_at" => 1.5, "retry" => true }
  end

  # A process that does this, with the gem.
  def process(what)
    spawn({ "REDIS_URL" => @server.url }, RUBY, "-W0", "-I", GEM, "-e", "require 'sidekiq-dehydrator'; #{what}",
          out: File::NULL, err: File::NULL)
  end

  # Starts processes that do it, three at a time, and kills them while what waits in the set becomes less, or more, until all
  # is done. Returns how often they were killed when some were moved and some were not.
  def despite_kills(what, finally)
    in_the_middle = 0
    loop do
      before = ask("ZCARD", "schedule")
      pids = Array.new(3) { process(what) }
      wait_until { ask("ZCARD", "schedule") != before }
      left = ask("ZCARD", "schedule")
      pids.each { |pid| Process.kill("KILL", pid) } if in_the_middle < 3
      pids.each { |pid| Process.wait(pid) }
      in_the_middle += 1 if left != finally && ask("ZCARD", "schedule") != finally
      return in_the_middle if ask("ZCARD", "schedule") == finally
    end
  end

  def test_what_waits_is_taken_over_as_it_is_and_goes_back
    fill(500)
    fill(10, set: "retry")
    before = ask("ZRANGE", "schedule", 0, -1, "WITHSCORES").flatten.map(&:to_s)
    assert_equal 510, Sidekiq::Dehydrator.take_over
    assert_equal [0, 500, 10], [ask("EXISTS", "schedule", "retry"), scheduled.size, retries.size]
    assert_equal (0...500).map { |number| job(number) }, scheduled.map(&:item).sort_by { |item| item["jid"] }
    assert_equal 510, Sidekiq::Dehydrator.leave!
    after = ask("ZRANGE", "schedule", 0, -1, "WITHSCORES").flatten.map(&:to_s)
    assert_equal jobs_of(before), jobs_of(after)
    # To the ms, and never earlier.
    before.each_slice(2).zip(after.each_slice(2)) { |(_, was), (_, is)| assert_includes 0..0.00101, is.to_f - was.to_f + 1e-6 }
    assert_equal %w[queues retry schedule], ask("KEYS", "*").sort
    assert_equal 0, Sidekiq::Dehydrator.leave!
  end

  def jobs_of(flat)
    flat.each_slice(2).map { |member, _| Sidekiq.load_json(member).reject { |name, _| name == "enqueued_at" } }
  end

  def test_what_is_overdue_comes_at_once
    fill(30, from: Time.now.to_f - 1000)
    Sidekiq::Dehydrator.take_over
    wait_until { (0..2).sum { |n| queue("q#{n}").size } == 30 }
  end

  def test_what_cannot_be_read_stays_and_is_told_of
    bad = ["{not json", "[1]", '{"class":"Note"}', '{"class":"Note","args":[1],"queue":""}']
    bad.each { |member| ask("ZADD", "schedule", (Time.now.to_f - 5).to_s, member) }
    ask("ZADD", "schedule", "+inf", Sidekiq.dump_json(job(1000)))
    fill(400)
    process = sidekiq(poll: 0.1)
    wait_until { scheduled.size == 405 && ask("ZCARD", "schedule") == 5 }
    assert_equal bad.sort, ask("ZRANGE", "schedule", 0, -2).sort
    wait_until { process.log.scan("stays in the sorted set schedule").size == 5 }
    # It is logged once, however often it is found.
    Note.perform_in(0.5, 1, Time.now.to_f + 0.5)
    wait_until { done(@server).size == 1 }
    assert_equal 5, process.log.scan("stays in the sorted set schedule").size
  end

  def test_what_is_refused_stays_until_it_is_due_and_then_comes
    ask("DEHYDRATOR.LIMIT", "schedule:q0", "LENGTH", 1)
    fill(9)
    assert_equal 7, Sidekiq::Dehydrator.take_over
    assert_equal [2, 9], [ask("ZCARD", "schedule"), scheduled.size]
    ask("ZADD", "schedule", "XX", (Time.now.to_f - 1).to_s, ask("ZRANGE", "schedule", 0, 0).first)
    assert_equal 1, Sidekiq::Dehydrator.take_over
    assert_equal [1, 1], [queue("q0").size, ask("ZCARD", "schedule")]
  end

  def test_a_key_of_another_type_keeps_back_its_own_queue_alone
    ask("SET", "schedule:q0", "text")
    fill(9)
    Sidekiq::Dehydrator::Takeover.told.clear
    assert_equal 6, Sidekiq::Dehydrator.take_over
    assert_equal [3, 9], [ask("ZCARD", "schedule"), scheduled.size]
    assert_equal 1, Sidekiq::Dehydrator::Takeover.told.size
    ask("ZADD", "schedule", "XX", (Time.now.to_f - 1).to_s, ask("ZRANGE", "schedule", 0, 0).first)
    assert_equal 1, Sidekiq::Dehydrator.take_over
    assert_equal [1, 2], [queue("q0").size, ask("ZCARD", "schedule")]
    ask("DEL", "schedule:q0")
    assert_equal 2, Sidekiq::Dehydrator.take_over
    assert_equal [0, 8], [ask("ZCARD", "schedule"), scheduled.size]
  end

  def test_processes_without_the_gem_may_go_on_for_a_while
    sidekiq(poll: 0.1)
    wait_until { Sidekiq::ProcessSet.new(false).size == 1 }
    fill(5)
    wait_until { ask("ZCARD", "schedule").zero? }
    assert_equal 5, scheduled.size
  end

  def test_none_is_lost_and_none_comes_twice_when_several_start_at_once_and_are_killed
    fill(MANY)
    killed = [despite_kills(TAKE, 0)]
    assert_equal (0...MANY).to_a, numbers
    killed << despite_kills(LEAVE, MANY)
    # A few hundred may be moved before they can be killed.
    killed.each { |times| assert_operator times, :>=, 1 } unless QUICK
    assert_equal (0...MANY).to_a, ask("ZRANGE", "schedule", 0, -1).map { |member| Sidekiq.load_json(member)["args"][0] }.sort
    assert_equal 0, Sidekiq::Dehydrator.leave!
  end

  def numbers
    scheduled.map { |entry| entry.args[0] }.sort
  end

  def test_none_is_lost_and_none_comes_twice_when_the_server_is_killed
    server = RealServer.new
    use(server)
    fill(MANY)
    pids = Array.new(2) { process("begin; #{TAKE}; rescue StandardError; sleep 0.1; retry; end") }
    begin
      2.times do |time|
        wait_until { ask("ZCARD", "schedule") < MANY * (2 - time) / 3 }
        server.restart
        use(server)
      end
      pids.each { |pid| Process.wait(pid) }
      assert_equal (0...MANY).to_a, numbers
      assert_equal 0, ask("ZCARD", "schedule")
    ensure
      server.close
    end
  end
end
