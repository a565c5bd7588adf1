# frozen_string_literal: true

require_relative "helper"
require "logger"
require "stringio"

# Periodic jobs.
class SchedulesTest < DehydratorTest
  SCHEDULES = Sidekiq::Dehydrator::Schedules
  DAY = 86_400_000

  # A job that no process of these tests takes.
  def periodic(cron = "0 0 1 1 *", **fields)
    { "cron" => cron, "class" => "Note", "args" => [1, 0], "queue" => "periodic" }.merge(fields.transform_keys(&:to_s))
  end

  def pushed(name = "periodic")
    ask("LRANGE", "queue:#{name}", 0, -1).reverse.map { |job| Sidekiq.load_json(job) }
  end

  def moments(name)
    pushed.map { |job| job["jid"].split("@") }.select { |first, _| first == name }.map { |_, moment| moment.to_i }
  end

  def state(name)
    SCHEDULES.find(name).state
  end

  def now
    (Time.now.to_f * 1000).to_i
  end

  # As if its next occurrence was that.
  def set(name, **changes)
    SCHEDULES.send(:change, name) { |old, _| old.with(old.state, changes.transform_keys(&:to_s)) }
  end

  # What a process's thread does, once.
  def serve
    Sidekiq::Dehydrator::ScheduleThread.new.serve
  end

  # The same, and it fails: that is logged.
  def fail_to_serve(error)
    logger, heard = configuration.logger, StringIO.new
    configuration.logger = Logger.new(heard)
    refute serve
    assert_match(error, heard.string)
  ensure
    configuration.logger = logger
  end

  def configuration
    Sidekiq.respond_to?(:default_configuration) ? Sidekiq.default_configuration : Sidekiq
  end

  def file(text)
    path = "#{@server.folder}/schedule.yml"
    File.write(path, text)
    path
  end

  def with_middleware(middleware)
    configuration.client_middleware { |chain| chain.add(middleware) }
    yield
  ensure
    configuration.client_middleware { |chain| chain.remove(middleware) }
  end

  def test_a_file_of_sidekiq_cron_is_loaded
    path = file(<<~YAML)
      plain: &plain
        cron: "0 0 1 1 * Europe/Berlin"
        class: Note
        description: It notes
        args: [1, <%= 1 + 1 %>]
      aliased: { <<: *plain, queue: other, retry: 3, args: { a: 1 }, symbolize_args: true }
      idle: { cron: every day at noon, klass: Note, status: disabled, args: '["x"]' }
      dated: { cron: "@daily", class: Note, args: x, date_as_argument: true }
      unknown: { cron: "* * * * *", class: Nowhere::Job }
      active: { cron: "* * * * *", class: Nowhere::Job, active_job: true, queue: q, queue_name_prefix: app }
      none: { class: Note }
      wrong: { cron: "61 * * * *", class: Note }
      never: { cron: "0 0 30 2 *", class: Note }
      classless: { cron: "* * * * *" }
      text: "* * * * *"
    YAML
    errors = SCHEDULES.load_file(path)
    assert_equal %w[classless never none text wrong], errors.keys.sort
    errors.each_value { |error| assert_kind_of String, error }
    assert_equal %w[active aliased dated idle plain unknown], SCHEDULES.all.map(&:name)
    assert_equal "0 0 1 1 * Europe/Berlin", SCHEDULES.find("plain").cron_text
    assert_equal [true, nil], [state("idle")["paused"], state("plain")["paused"]]

    before = now
    ids = SCHEDULES.all.to_h { |schedule| [schedule.name, SCHEDULES.run(schedule.name)] }
    ids.each { |name, id| assert_includes before..now, id[/\A#{name}@(\d+)\z/, 1].to_i }
    jobs = %w[default other app_q].flat_map { |queue| pushed(queue) }.to_h { |job| [job["jid"].split("@").first, job] }
    assert_equal [1, 2], jobs["plain"]["args"]
    assert_equal ["It notes", true], jobs["plain"].values_at("description", "retry")
    assert_equal [[{ "a" => 1 }], 3, "other"], jobs["aliased"].values_at("args", "retry", "queue")
    assert_equal ["x"], jobs["idle"]["args"]
    assert_equal ["x", ids["dated"].split("@").last.to_i / 1000.0], jobs["dated"]["args"]
    assert_equal ["Nowhere::Job", []], jobs["unknown"].values_at("class", "args")
    wrapper = "ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper"
    assert_equal [wrapper, "Nowhere::Job"], jobs["active"].values_at("class", "wrapped")
    assert_equal ["Nowhere::Job", "app_q", []], jobs["active"]["args"][0].values_at("job_class", "queue_name", "arguments")

    SCHEDULES.load([periodic(name: "list")])
    assert_equal %w[list], SCHEDULES.all.reject(&:gone_until).map(&:name)
  end

  def test_the_file_is_left_to_sidekiq_cron_if_that_is_loaded
    load = -> { Sidekiq::Dehydrator::ScheduleThread.send(:load_file) }
    was, SCHEDULES.file = SCHEDULES.file, "#{@server.folder}/other.yml"
    load.call
    File.write("#{@server.folder}/other.yaml", "a: { cron: '* * * * *', class: Note }")
    Sidekiq.const_set(:Cron, Module.new).const_set(:Job, Class.new)
    load.call
    assert_empty SCHEDULES.all
    Sidekiq.send(:remove_const, :Cron)
    load.call
    assert_equal %w[a], SCHEDULES.all.map(&:name)
    SCHEDULES.file = nil
    load.call
  ensure
    SCHEDULES.file = was
  end

  def test_the_queue_gets_what_sidekiq_itself_would_push
    SCHEDULES.put("ä/b", periodic(description: nil, args: [1, "ü", { "a" => nil }]))
    moment = now - 1000
    set("ä/b", next: moment)
    serve
    Note.set(queue: "periodic").perform_async(1, "ü", { "a" => nil })
    ours, theirs = pushed
    assert_equal "ä_b@#{ours["jid"][/\d+/]}", ours["jid"]
    assert_equal theirs.keys.sort, ours.keys.sort
    own = %w[jid created_at enqueued_at]
    assert_equal theirs.reject { |key, _| own.include?(key) }, ours.reject { |key, _| own.include?(key) }
    own.each { |key| assert_kind_of theirs[key].class, ours[key] }
    assert_operator (theirs["enqueued_at"] - ours["enqueued_at"]).abs, :<, Sidekiq::VERSION.to_i >= 8 ? 5000 : 5
    assert_equal %w[periodic], ask("SMEMBERS", "queues")
    # It moved on by the cron, and not by the state of this test.
    assert_equal 1, Time.at(state("ä/b")["next"] / 1000).utc.yday
  end

  def test_a_class_of_active_job_is_pushed_as_its_adapter_does
    begin
      require "active_job"
      require "active_job/queue_adapters/sidekiq_adapter"
    rescue LoadError
      return skip("there is no Active Job of this Ruby")
    end
    Object.const_set(:Greeting, Class.new(ActiveJob::Base) { queue_as :greetings }) unless defined?(Greeting)
    ActiveJob::Base.logger = nil
    ActiveJob::Base.queue_adapter = :sidekiq
    SCHEDULES.load({ "greet" => { "cron" => "* * * * *", "class" => "Greeting", "args" => { "to" => "Ada" }, "symbolize_args" => true },
                     "other" => { "cron" => "* * * * *", "class" => "Greeting", "queue" => "other" } })
    assert_equal "greetings", Sidekiq.load_json(SCHEDULES.find("greet").job)["queue"]
    SCHEDULES.run("greet")
    SCHEDULES.run("other")
    Greeting.perform_later({ to: "Ada" })
    ours, theirs = pushed("greetings")
    own = %w[jid created_at enqueued_at]
    assert_equal theirs.except("args", *own), ours.except("args", *own)
    data = %w[job_id enqueued_at provider_job_id]
    assert_equal theirs["args"][0].except(*data), ours["args"][0].except(*data)
    assert_equal "other", pushed("other").first["args"][0]["queue_name"]
  end

  def test_an_upsert_keeps_what_did_not_change
    put = ->(**fields) { SCHEDULES.load({ "a" => periodic("0 * * * *", **fields), "b" => periodic }) }
    put.call
    set("a", last: 5, late: 6, missed: 7)
    SCHEDULES.pause("a")
    element = SCHEDULES.find("a").element
    put.call
    assert_equal element, SCHEDULES.find("a").element
    put.call(args: [2])
    assert_equal [5, 6, 7, true], state("a").values_at("last", "late", "missed", "paused")
    assert_equal [2], Sidekiq.load_json(SCHEDULES.find("a").job)["args"]
    put.call(status: "enabled")
    assert_equal [5, nil], state("a").values_at("last", "paused")
    put.call(status: "disabled")
    assert state("a")["paused"]
    put.call(cron: "0 0 * * *")
    assert_equal [0, nil, true], [state("a")["next"] % DAY, *state("a").values_at("last", "paused")]
  end

  def test_many_upserts_and_pauses_at_once_lose_none
    names = Array.new(20) { |number| "s#{number}" }
    threads = Array.new(4) { Thread.new { names.each { |name| SCHEDULES.put(name, periodic) } } }
    threads.each(&:join)
    threads = Array.new(2) { Thread.new { names.each { |name| SCHEDULES.put(name, periodic(args: [2])) } } }
    threads << Thread.new { names.each { |name| SCHEDULES.pause(name) } }
    threads.each(&:join)
    assert_equal names.sort, SCHEDULES.all.map(&:name).sort
    SCHEDULES.all.each { |one| assert_equal [true, [2]], [one.state["paused"], Sidekiq.load_json(one.job)["args"]] }
  end

  def test_a_schedule_that_is_no_more_in_the_file_waits_a_day_for_a_file_that_has_it
    SCHEDULES.put("mine", periodic)
    SCHEDULES.load({ "theirs" => periodic }, "another")
    both = { "a" => periodic("* * * * *"), "b" => periodic }
    SCHEDULES.load(both)
    SCHEDULES.load(both.slice("b"))
    assert_equal %w[a], SCHEDULES.all.select(&:gone_until).map(&:name)
    gone = state("a")["gone"]
    set("a", next: now - 60_000)
    # It does not occur.
    ask("DEHYDRATOR.TOUCH", SCHEDULES::KEY, 0, "a")
    serve
    assert_equal 0, queue("periodic").size
    SCHEDULES.load(both.slice("b"))
    assert_equal gone, state("a")["gone"]
    # An older release starts once more: nothing is lost.
    SCHEDULES.load(both)
    refute SCHEDULES.find("a").gone_until
    serve
    assert_equal 1, queue("periodic").size

    SCHEDULES.load(both.slice("b"))
    set("a", gone: now - DAY - 1)
    serve
    assert_equal %w[b mine theirs], SCHEDULES.all.map(&:name)
    assert_equal 1, queue("periodic").size
  end

  def test_of_missed_occurrences_the_last_one_comes
    SCHEDULES.load({ "minutes" => periodic("* * * * *"), "seconds" => periodic("* * * * * *") })
    first = now / 60_000 * 60_000 - 540_000
    set("minutes", next: first, missed: 3)
    set("seconds", next: now / 1000 * 1000 - DAY)
    2.times { serve }
    last = state("minutes")["last"]
    assert_equal [last], moments("minutes")
    assert_includes 0..60_000, now - last
    assert_equal 0, last % 60_000
    assert_equal [last + 60_000, 3 + (last - first) / 60_000], state("minutes").values_at("next", "missed")
    # So many that they are not all counted.
    last = state("seconds")["last"]
    assert_equal last, moments("seconds").first
    assert_operator now - last, :<, 10_000
    assert_operator state("seconds")["missed"], :>, 50
    assert_operator state("seconds")["next"], :>, last
  end

  def test_a_pause_skips_occurrences_and_a_run_does_not_wait
    SCHEDULES.put("a", periodic("* * * * *"))
    assert SCHEDULES.pause("a")
    set("a", next: now - 600_000)
    serve
    assert_equal [0, nil], [queue("periodic").size, state("a")["missed"]]
    assert_operator state("a")["next"], :>, now
    set("a", next: now - 600_000)
    # Without a process it counts as skipped too.
    assert SCHEDULES.resume("a")
    assert_operator state("a")["next"], :>, now
    before = SCHEDULES.find("a").element
    id = SCHEDULES.run("a")
    assert_equal [[id], before], [pushed.map { |job| job["jid"] }, SCHEDULES.find("a").element]
    assert SCHEDULES.remove("a")
    refute SCHEDULES.remove("a")
    assert_equal [nil, nil, nil, nil], [SCHEDULES.find("a"), SCHEDULES.run("a"), SCHEDULES.pause("a"), SCHEDULES.resume("a")]
  end

  def test_a_zone_is_that_of_the_process_that_loaded_it
    was = ENV.fetch("TZ", nil)
    ENV["TZ"] = "Asia/Tokyo"
    SCHEDULES.put("a", periodic("0 9 * * *"))
    assert_equal "0 9 * * * Asia/Tokyo", SCHEDULES.find("a").cron_text
    ENV["TZ"] = "America/New_York"
    set("a", next: now - DAY)
    serve
    assert_equal 0, state("a")["next"] % DAY
    assert_equal 1, queue("periodic").size
  ensure
    ENV["TZ"] = was
  end

  class Stop
    def call(*); end
  end

  class Fail
    def call(*)
      raise "not now"
    end
  end

  def test_a_client_middleware_can_stop_an_occurrence_and_one_that_fails_delays_it
    SCHEDULES.put("a", periodic("* * * * *"))
    set("a", next: now - 1000)
    with_middleware(Fail) { fail_to_serve(/not now/) }
    assert_equal [0, nil], [queue("periodic").size, state("a")["last"]]
    # It would come again when the lease is over. This does not wait.
    set("a", next: now - 1000)
    serve
    assert_equal 1, queue("periodic").size
    set("a", next: now - 1000)
    with_middleware(Stop) { serve }
    assert_equal 1, queue("periodic").size
    assert_operator state("a")["next"], :>, now
  end

  # Two hold the same occurrence, because the first was slow.
  def test_a_late_process_pushes_nothing
    SCHEDULES.put("a", periodic("* * * * *"))
    set("a", next: now - 1000)
    poll = ->(token) { ask("DEHYDRATOR.POLL", SCHEDULES::KEY, "COUNT", 1, "BLOCK", 1000, "LEASE", 20, "TOKEN", token).first[1] }
    store = lambda do |element, token|
      schedule = SCHEDULES.find("a")
      moved, moment = schedule.step(now)
      job = Sidekiq::Dehydrator::Occurrence.payload(schedule, moment)
      SCHEDULES.store("a", element, moved, now, token: token, job: job)
    end
    first, second = poll.call("first"), poll.call("second")
    assert_equal first, second
    refute store.call(first, "first")
    assert_equal 0, queue("periodic").size
    assert store.call(second, "second")
    refute store.call(second, "second")
    assert_equal 1, queue("periodic").size
  end

  def test_a_refusal_pushes_nothing_and_loses_nothing
    SCHEDULES.load({ "a" => periodic(queue: "wrong"), "b" => periodic })
    set("a", next: now - 2000)
    set("b", next: now - 1000)
    ask("SET", "queue:wrong", "text")
    fail_to_serve(/WRONGTYPE/)
    # The job of the second could be pushed, but not the schedule.
    ask("CONFIG", "SET", "dehydrator.max-ttl", "60000")
    fail_to_serve(/max-ttl/)
    assert_equal [0, nil, nil], [queue("periodic").size, state("a")["last"], state("b")["last"]]
    ask("DEL", "queue:wrong")
    ask("CONFIG", "SET", "dehydrator.max-ttl", "0")
    2.times { assert serve }
    assert_equal [1, 1], [queue("periodic").size, queue("wrong").size]
  ensure
    ask("CONFIG", "SET", "dehydrator.max-ttl", "0")
  end

  def test_leaving_removes_them
    SCHEDULES.put("a", periodic)
    Sidekiq::Dehydrator.leave!
    assert_equal 0, ask("EXISTS", SCHEDULES::KEY)
  end

  def test_jobs_run_each_second_in_the_process_that_loads_the_file
    path = file("tick: { cron: '* * * * * *', class: Note, args: [7, 0] }\nbad: { cron: x, class: Note }")
    process = sidekiq(schedule: path)
    wait_until { done(@server).size >= 2 }
    # Also on a busy machine, one of them is not late.
    wait_until { state("tick").then { |it| it["late"].to_i < 1000 && it["next"] - it["last"] == 1000 } }
    assert_match(/bad: 'cron' is not a cron: "x"/, process.log)
    process.stop
    @processes.clear
    count = done(@server).size
    assert_equal [7] * count, done(@server).map(&:first)
  end

  def test_an_occurrence_comes_once_if_the_process_that_holds_it_is_killed
    SCHEDULES.put("a", periodic)
    moment = now - 1000
    set("a", next: moment)
    stall = "#{@server.folder}/stall"
    process = sidekiq(schedule: "", stall: stall)
    wait_until { File.exist?(stall) }
    process.kill
    @processes.clear
    started = Time.now
    wait_until { serve && queue("periodic").size == 1 }
    assert_operator Time.now - started, :>, 0.5
    assert_equal [moment], moments("a").map { |one| one - one % 1000 + moment % 1000 }
    assert_operator state("a")["late"], :>, 1000
  end

  # No moment has two jobs, and none is left out but those that are counted as missed.
  def test_each_occurrence_has_one_job_while_processes_and_the_server_are_killed
    server = RealServer.new
    use(server)
    path = file("a: { cron: '* * * * * *', class: Note, queue: periodic }\nb: { cron: '*/2 * * * * *', class: Note, queue: periodic }")
    start = -> { sidekiq(schedule: path, slow: true) }
    3.times { start.call }
    wait_until { moments("a").size >= 2 }
    random = Random.new(17)
    (QUICK ? 2 : 25).times do |number|
      sleep random.rand(QUICK ? 0.4..0.8 : 1.5..3.0)
      @processes.shift.kill
      start.call unless QUICK
      next unless number % 4 == 1

      server.restart
      use(server)
    end
    count = moments("a").size
    wait_until { moments("a").size >= count + 2 }
    @processes.each(&:kill)
    @processes.clear
    { "a" => 1000, "b" => 2000 }.each do |name, step|
      came = moments(name)
      assert_equal came.uniq.sort, came
      missed = state(name)["missed"].to_i
      assert_equal (came.last - came.first) / step + 1, came.size + missed, name
      assert_operator missed, :<, 3 * came.size, name
    end
  ensure
    @processes.each(&:kill)
    @processes.clear
    server&.close
  end
end
