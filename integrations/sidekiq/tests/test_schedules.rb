# frozen_string_literal: true

require_relative "helper"
require "logger"
require "stringio"

# Periodic jobs.
class SchedulesTest < DehydratorTest
  SCHEDULES = Sidekiq::Dehydrator::Schedules
  DAY = 86_400_000

  # A job that no process of these tests takes.
  def periodic(cron = "0 0 1 1 * UTC", **fields)
    { "cron" => cron, "class" => "Note", "args" => [1, 0], "queue" => "periodic" }.merge(fields.transform_keys(&:to_s))
  end

  def pushed(name = "periodic")
    ask("LRANGE", "queue:#{name}", 0, -1).reverse.map { |job| Sidekiq.load_json(job) }
  end

  def moments(name)
    pushed.map { |job| job["jid"].split("@") }.select { |first, _| first == name }.map { |_, moment| moment.to_i }
  end

  # How many occurrences are no job yet.
  def left
    ask("DEHYDRATOR.LEN", SCHEDULES::KEY)
  end

  def now
    (Time.now.to_f * 1000).to_i
  end

  # Lets a schedule occur once, and returns when.
  def occur(name, **fields)
    ask("DEHYDRATOR.EVERY", SCHEDULES::KEY, "20", Sidekiq.dump_json(JOB.call(periodic(**fields))), name, "TIMES", 1)
    wait_until { left == 1 }
    ask("DEHYDRATOR.RANGE", SCHEDULES::KEY, "-", "+").last.first.first.split("@").last.to_i
  end
  JOB = ->(fields) { Sidekiq::Dehydrator::Occurrence.job(fields, nil) }

  # What a process's thread does, once.
  def serve
    Sidekiq::Dehydrator::ScheduleThread.new.serve
  end

  # The same, and it fails: that is logged.
  def fail_to_serve(error)
    assert_match(error, logged { refute serve })
  end

  def logged
    logger, heard = configuration.logger, StringIO.new
    configuration.logger = Logger.new(heard)
    yield
    heard.string
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
      idle: { cron: "0 12 * * *", klass: Note, status: disabled, args: '["x"]' }
      english: { cron: every day at noon, class: Note }
      seconds: { cron: "* * * * * *", class: Note }
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
    assert_equal %w[classless english never none seconds text wrong], errors.keys.sort
    errors.each_value { |error| assert_kind_of String, error }
    assert_equal %w[active aliased dated idle plain unknown], SCHEDULES.all.map(&:name)
    assert_equal "0 0 1 1 * Europe/Berlin", SCHEDULES.find("plain").cron
    assert_equal [true, false], %w[idle plain].map { |name| SCHEDULES.find(name).paused }

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
    assert_equal %w[list], SCHEDULES.all.map(&:name)
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
    occur("ä/b", description: nil, args: [1, "ü", { "a" => nil }])
    assert serve
    Note.set(queue: "periodic").perform_async(1, "ü", { "a" => nil })
    ours, theirs = pushed
    assert_equal "ä_b@#{ours["jid"][/\d+/]}", ours["jid"]
    assert_equal theirs.keys.sort, ours.keys.sort
    own = %w[jid created_at enqueued_at]
    assert_equal theirs.reject { |key, _| own.include?(key) }, ours.reject { |key, _| own.include?(key) }
    own.each { |key| assert_kind_of theirs[key].class, ours[key] }
    assert_operator (theirs["enqueued_at"] - ours["enqueued_at"]).abs, :<, Sidekiq::VERSION.to_i >= 8 ? 5000 : 5
    assert_equal %w[periodic], ask("SMEMBERS", "queues")
    assert_equal 0, left
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
    assert_equal "greetings", SCHEDULES.find("greet").job["queue"]
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

  def test_what_is_loaded_again_stays_as_it_is
    load = ->(**fields) { SCHEDULES.load({ "a" => periodic("0 * * * * UTC", **fields), "b" => periodic }) }
    load.call
    SCHEDULES.pause("a")
    before = SCHEDULES.find("a")
    load.call
    assert_equal before, SCHEDULES.find("a")
    load.call(args: [2])
    assert_equal [true, [2], before.next], SCHEDULES.find("a").then { |it| [it.paused, it.job["args"], it.next] }
    load.call(status: "enabled")
    refute SCHEDULES.find("a").paused
    load.call(status: "disabled")
    assert SCHEDULES.find("a").paused
  end

  def test_a_schedule_that_its_source_lacks_is_removed
    SCHEDULES.put("mine", periodic)
    SCHEDULES.load({ "theirs" => periodic }, "another")
    both = { "a" => periodic, "b" => periodic }
    SCHEDULES.load(both)
    SCHEDULES.load(both.slice("b"))
    assert_equal %w[b mine theirs], SCHEDULES.all.map(&:name)
  end

  def test_a_pause_skips_occurrences_and_a_run_does_not_wait
    SCHEDULES.put("a", periodic("50"))
    SCHEDULES.pause("a")
    count = left
    sleep 0.2
    assert_equal count, left
    SCHEDULES.resume("a")
    wait_until { left > count }
    SCHEDULES.pause("a")
    id = SCHEDULES.run("a")
    assert_equal [id], pushed.map { |job| job["jid"] }
    assert SCHEDULES.remove("a")
    refute SCHEDULES.remove("a")
    assert_equal [nil, nil], [SCHEDULES.find("a"), SCHEDULES.run("a")]
  end

  def test_a_cron_without_a_zone_has_that_of_the_process_and_a_warning
    was = ENV.fetch("TZ", nil)
    ENV["TZ"] = "Asia/Tokyo"
    warning = logged { SCHEDULES.put("a", periodic("0 9 * * *")) }
    assert_match(/a: its cron has no zone, and is in Asia\/Tokyo/, warning)
    assert_equal ["0 9 * * * Asia/Tokyo", 0], SCHEDULES.find("a").then { |it| [it.cron, it.next % DAY] }
    assert_empty logged { SCHEDULES.put("a", periodic("0 9 * * * Asia/Tokyo")) }
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
    occur("a")
    with_middleware(Fail) { fail_to_serve(/not now/) }
    assert_equal [0, 1], [queue("periodic").size, left]
    # It comes again when the lease is over. This does not wait.
    ask("DEHYDRATOR.TOUCH", SCHEDULES::KEY, 0, ask("DEHYDRATOR.RANGE", SCHEDULES::KEY, "-", "+").last.first.first)
    assert serve
    assert_equal [1, 0], [queue("periodic").size, left]
    occur("b")
    with_middleware(Stop) { assert serve }
    assert_equal [1, 0], [queue("periodic").size, left]
  end

  # Two hold the same occurrence, because the first was slow.
  def test_a_late_process_pushes_nothing
    occur("a")
    poll = ->(token) { ask("DEHYDRATOR.POLL", SCHEDULES::KEY, "COUNT", 1, "BLOCK", 1000, "LEASE", 20, "TOKEN", token).first }
    answer = ->(row) { Sidekiq::Dehydrator::ScheduleThread.new.send(:answer, *row) }
    first, second = poll.call("first"), poll.call("second")
    assert_equal [first[0], 1, 2], [second[0], first[2], second[2]]
    answer.call(first)
    assert_equal [0, 1], [queue("periodic").size, left]
    2.times { answer.call(second) }
    assert_equal [1, 0], [queue("periodic").size, left]
  end

  def test_a_refusal_pushes_nothing_and_loses_nothing
    ask("SET", "queue:wrong", "text")
    occur("a", queue: "wrong")
    fail_to_serve(/WRONGTYPE/)
    assert_equal 1, left
    ask("DEL", "queue:wrong")
    ask("DEHYDRATOR.TOUCH", SCHEDULES::KEY, 0, ask("DEHYDRATOR.RANGE", SCHEDULES::KEY, "-", "+").last.first.first)
    assert serve
    assert_equal [1, 0], [queue("wrong").size, left]
  end

  def test_leaving_removes_them
    SCHEDULES.put("a", periodic)
    Sidekiq::Dehydrator.leave!
    assert_equal 0, ask("EXISTS", SCHEDULES::KEY)
  end

  def test_jobs_run_in_the_process_that_loads_the_file
    path = file("tick: { cron: 200, class: Note, args: [7, 0] }\nbad: { cron: x, class: Note }")
    process = sidekiq(schedule: path)
    wait_until { done(@server).size >= 3 }
    assert_match(/bad: .*plan 'x' is neither/, process.log)
    process.stop
    @processes.clear
    assert_equal [7], done(@server).map(&:first).uniq
  end

  def test_an_occurrence_comes_once_if_the_process_that_holds_it_is_killed
    moment = occur("a")
    stall = "#{@server.folder}/stall"
    process = sidekiq(schedule: "", stall: stall)
    wait_until { File.exist?(stall) }
    process.kill
    @processes.clear
    started = Time.now
    wait_until { serve && queue("periodic").size == 1 }
    assert_operator Time.now - started, :>, 0.5
    assert_equal [[moment], 0], [moments("a"), left]
  end

  # No occurrence that the server stored has two jobs, and none is left out.
  def test_each_occurrence_has_one_job_while_processes_and_the_server_are_killed
    server = RealServer.new
    use(server)
    path = file("a: { cron: 300, class: Note, queue: periodic }\nb: { cron: 700, class: Note, queue: periodic }")
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
    %w[a b].each { |name| SCHEDULES.pause(name) }
    # On a busy machine, the others may have begun while the server was away, and have ended.
    start.call
    wait_until { left.zero? }
    @processes.each(&:kill)
    @processes.clear
    { "a" => 300, "b" => 700 }.each do |name, step|
      came = moments(name)
      assert_equal came.uniq.sort, came.sort
      assert_equal ask("DEHYDRATOR.SCHEDULES", SCHEDULES::KEY, name).first.then { |it| Sidekiq::Dehydrator::Waiting.fields(it)["stored"] },
                   came.size, name
      assert_equal [came.first % step], came.map { |moment| moment % step }.uniq
    end
  ensure
    @processes.each(&:kill)
    @processes.clear
    server&.close
  end
end
