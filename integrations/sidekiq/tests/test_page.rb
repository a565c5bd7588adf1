# frozen_string_literal: true

require_relative "helper"
require "rack"
require "rack/mock"
begin
  require "rack/session"
rescue LoadError
  require "rack/session/cookie"
end
require "sidekiq/web"
require "sidekiq/dehydrator/web"

# Sidekiq's own page.
class PageTest < DehydratorTest
  include Sidekiq::Paginator

  def setup
    super
    secret = "s" * 64
    web = Sidekiq::Web
    @page = Rack::MockRequest.new(Rack::Builder.new do
      use Rack::Session::Cookie, secret: secret
      run web
    end.to_app)
  end

  # The data of a posted form, with Sidekiq's CSRF token.
  def post(path, **values)
    shown = @page.get(path[%r{^/\w+}])
    token = shown.body[/name=['"]authenticity_token['"] value=['"]([^'"]+)/, 1]
    body = Rack::Utils.build_nested_query(values.transform_keys(&:to_s).merge("authenticity_token" => token))
    cookie = Array(shown["Set-Cookie"]).join("\n").split("\n").map { |line| line[/^[^;]+/] }.join("; ")
    reply = @page.post(path, :input => body, "HTTP_COOKIE" => cookie, "CONTENT_TYPE" => "application/x-www-form-urlencoded",
                             "HTTP_SEC_FETCH_SITE" => "same-origin")
    assert_equal 302, reply.status, reply.body[0, 300]
  end

  def key(entry)
    "#{entry.score}-#{entry.jid}"
  end

  def test_scheduled_are_listed_by_pages_in_order
    start = Time.now.to_f + 1000
    100.times { |number| Note.set(queue: "q#{number % 3}").perform_at(start + (number * 37 % 100), number, 0) }
    # One that is not taken over yet stands in its place.
    ask("ZADD", "schedule", (start + 50.5).to_s, '{"class":"Old","args":[],"jid":"old","queue":"default"}')
    pages = (1..5).map { |number| page("schedule", number, 25) }
    assert_equal [101] * 5, pages.map { |_, total, _| total }
    jobs = pages.flat_map(&:last)
    assert_equal 101, jobs.size
    assert_equal jobs.map(&:last).sort, jobs.map(&:last)
    assert_equal "Old", Sidekiq.load_json(jobs[51].first)["class"]
    shown = @page.get("/scheduled")
    assert_equal 25, shown.body.scan(/name=['"]key\[\]['"]/).size
    assert_match(/q1/, shown.body)
  end

  def test_scheduled_are_shown_deleted_and_run_from_the_page
    first, second = [Note.perform_in(100, 1, 0), Note.perform_in(200, 2, 0)]
    shown = @page.get("/scheduled/#{key(waits(first))}")
    assert_equal 200, shown.status
    assert_match(/#{first}/, shown.body)
    post("/scheduled", key: [key(waits(first))], delete: "Delete")
    refute waits(first)
    post("/scheduled", key: [key(waits(second))], add_to_queue: "Add")
    wait_until { queue.size == 1 }
    assert_equal second, queue.first.jid
  end

  def test_retries_are_shown_run_and_killed_from_the_page
    %w[a b c d].each_with_index do |jid, number|
      retries.schedule(Time.now + 100 + number, "class" => "Note", "args" => [1, 0], "jid" => jid, "queue" => "default",
                                                "error_class" => "Oops", "error_message" => "m", "retry_count" => 2,
                                                "failed_at" => Time.now.to_f, "created_at" => Time.now.to_f)
    end
    assert_match(/Oops/, @page.get("/retries").body)
    assert_equal 0, scheduled.size
    post("/retries", key: [key(retries.find_job("a"))], retry: "Retry")
    wait_until { queue.size == 1 }
    assert_equal 1, queue.first["retry_count"]
    post("/retries", key: [key(retries.find_job("b"))], kill: "Kill")
    assert_equal %w[b], Sidekiq::DeadSet.new.map(&:jid)
    post("/retries/#{key(retries.find_job("c"))}", delete: "Delete")
    assert_equal %w[d], retries.map(&:jid)
    post("/retries/all/retry")
    wait_until { queue.size == 2 }
    stats = Sidekiq.load_json(@page.get("/stats").body)["sidekiq"]
    assert_equal [0, 0], stats.values_at("retries", "scheduled")
  end

  def test_periodic_jobs_are_shown_run_paused_and_removed_from_the_page
    name = "<daily> \"report\""
    schedules = Sidekiq::Dehydrator::Schedules
    schedules.load({ name => { "cron" => "0 0 1 1 * Europe/Berlin", "class" => "Note", "args" => [17], "description" => "<i>" },
                     "other" => { "cron" => "* * * * *", "class" => "Note" } })
    shown = @page.get("/periodic")
    assert_equal 200, shown.status
    [name, "0 0 1 1 * Europe/Berlin", "<i>"].each { |text| assert_includes CGI.unescapeHTML(shown.body), text }
    refute_includes shown.body, "<i>"
    assert_includes shown.body, Time.at(schedules.find("other").next / 1000).utc.iso8601
    assert_includes @page.get("/").body, "periodic"
    post("/periodic", name: name, button: "run")
    assert_equal [[17]], queue.map(&:args)
    post("/periodic", name: name, button: "pause")
    assert schedules.find(name).paused
    assert_includes @page.get("/periodic").body, "paused"
    post("/periodic", name: name, button: "resume")
    refute schedules.find(name).paused
    post("/periodic", name: name, button: "load_file")
    post("/periodic", name: name, button: "remove")
    assert_equal %w[other], schedules.all.map(&:name)
    schedules.load({ "tick" => { "cron" => "100", "class" => "Note" } })
    wait_until { schedules.find("tick").last }
    schedules.pause("tick")
    assert_includes @page.get("/periodic").body, Time.at(schedules.find("tick").last / 1000).utc.iso8601
  end
end
