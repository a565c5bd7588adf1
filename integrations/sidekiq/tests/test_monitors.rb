# frozen_string_literal: true

require_relative "helper"
require "rack"
require "rack/mock"
begin
  require "rack/session"
rescue LoadError
  require "rack/session/cookie"
end
require "open3"
require "sidekiq/monitor"
require "sidekiq/web"

# What Sidekiq's monitors show, in random states, compared with what was scheduled and deleted here.
class MonitorsTest < DehydratorTest
  STATES = 50
  WORDS = %w[mail report [x] a*b {"q":1} ümlaut back\\slash].freeze
  SEED = Integer(ENV.fetch("DEHYDRATOR_SEED", Random.new_seed % 2**32))
  puts "DEHYDRATOR_SEED=#{SEED}"

  def setup
    super
    @draw = Random.new(SEED)
  end

  # Some jobs in each place. The ids of those that wait, with their words.
  def any_state
    ask("FLUSHALL")
    @scheduled, @retried = {}, {}
    @draw.rand(12).times do
      word = WORDS.sample(random: @draw)
      jid = Note.set(queue: "q#{@draw.rand(3)}").perform_in(100 + @draw.rand(10**6), word, 0)
      @scheduled[jid] = word
    end
    @draw.rand(12).times do |number|
      word = WORDS.sample(random: @draw)
      job = { "class" => "Note", "args" => [word, 0], "jid" => "r#{number}", "queue" => "q#{@draw.rand(3)}",
              "error_class" => "Oops", "error_message" => "m", "retry_count" => 2, "failed_at" => Time.now.to_f,
              "created_at" => Time.now.to_f }
      retries.schedule(Time.now.to_f + 100 + number, job)
      @retried["r#{number}"] = word
    end
    @scheduled.keys.sample(@draw.rand(3), random: @draw).each do |jid|
      scheduled.find_job(jid).delete
      @scheduled.delete(jid)
    end
    # Those due are in the list, and only there.
    @enqueued = @scheduled.keys.sample(@draw.rand(3), random: @draw)
    @enqueued.each do |jid|
      scheduled.find_job(jid).add_to_queue
      @scheduled.delete(jid)
    end
    wait_until { Sidekiq::Queue.all.sum(&:size) == @enqueued.size }
    # One that nobody took over yet.
    return unless @draw.rand < 0.3

    ask("ZADD", "schedule", (Time.now.to_f + 5000).to_s, '{"class":"Old","args":["mail"],"jid":"old","queue":"q0"}')
    @scheduled["old"] = "mail"
  end

  def overview(text)
    { enqueued: text[/Enqueued: ([\d,]+)/, 1], scheduled: text[/Scheduled: ([\d,]+)/, 1],
      retries: text[/Retries: ([\d,]+)/, 1] }.transform_values { |number| number.delete(",").to_i }
  end

  def expected
    { enqueued: @enqueued.size, scheduled: @scheduled.size, retries: @retried.size }
  end

  def test_sidekiqmon_prints_what_waits
    STATES.times do
      any_state
      printed, = capture_io { Sidekiq::Monitor::Status.new.display("overview") }
      assert_equal expected, overview(printed)
    end
    # The program itself, which is told of the gem by a variable.
    program = File.expand_path("../bin/sidekiqmon", $LOAD_PATH.find { |path| File.exist?("#{path}/sidekiq/monitor.rb") })
    variables = { "REDIS_URL" => @server.url, "RUBYOPT" => "-W0 -I#{GEM} -rsidekiq-dehydrator" }
    printed, status = Open3.capture2e(variables, RUBY, program, "overview")
    assert status.success?, printed
    assert_equal expected, overview(printed)
  end

  def test_the_filter_of_the_page_finds_what_waits
    web = Sidekiq::Web
    page = Rack::MockRequest.new(Rack::Builder.new do
      use Rack::Session::Cookie, secret: "s" * 64
      run web
    end.to_app)
    STATES.times do
      any_state
      word = WORDS.sample(random: @draw)
      { "scheduled" => [scheduled, @scheduled], "retries" => [retries, @retried] }.each do |name, (set, waiting)|
        # In JSON.
        text = Sidekiq.dump_json(word)[1..-2]
        pattern = text.gsub(/[\[\]\\*?]/) { |sign| "\\#{sign}" }
        there = waiting.select { |_, other| other == word }.keys.sort
        assert_equal there, set.scan("*#{pattern}*").map(&:jid).sort, pattern
        next if Sidekiq::VERSION.to_i < 7

        path = Sidekiq::VERSION.to_i < 8 ? "/filter/#{name}" : "/#{name}"
        shown = page.get("#{path}?#{Rack::Utils.build_query("substr" => pattern == text ? text : "*#{pattern}*")}")
        assert_equal 200, shown.status
        assert_equal there, shown.body.scan(/name=['"]key\[\]['"] value=['"][\d.]+-(\w+)/).flatten.uniq.sort
      end
    end
  end
end
