# frozen_string_literal: true

require_relative "helper"
begin
  require "sidekiq-unique-jobs"
rescue LoadError
  require_relative "unique_jobs_stand_in"
end
Sidekiq::Dehydrator::UniqueJobs.install

# The locks of sidekiq-unique-jobs, and its reaper, in random states.
class UniqueJobsTest < DehydratorTest
  STATES = 50
  SEED = Integer(ENV.fetch("DEHYDRATOR_SEED", Random.new_seed % 2**32))
  puts "DEHYDRATOR_SEED=#{SEED}, #{defined?(SidekiqUniqueJobs::VERSION) ? SidekiqUniqueJobs::VERSION : "a stand-in"}"

  class Once < Note
    sidekiq_options lock: :until_executed, queue: "once"
  end

  def setup
    super
    @draw = Random.new(SEED)
    Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add(SidekiqUniqueJobs::Middleware::Client) } }
    config = Sidekiq.respond_to?(:default_configuration) ? Sidekiq.default_configuration : Sidekiq
    config.client_middleware { |chain| chain.add(SidekiqUniqueJobs::Middleware::Client) }
  end

  def reap
    # The reaper spares locks that are new.
    ask("ZRANGE", "uniquejobs:digests", 0, -1).each { |digest| ask("ZADD", "uniquejobs:digests", "XX", "1", digest) }
    Sidekiq.redis { |conn| SidekiqUniqueJobs::Orphans::RubyReaper.new(conn).call }
  end

  def digests
    ask("ZRANGE", "uniquejobs:digests", 0, -1).sort
  end

  def test_the_reaper_deletes_the_locks_of_lost_jobs_alone
    STATES.times do
      ask("FLUSHALL")
      numbers = (0...@draw.rand(2..10)).to_a
      jids = numbers.map { |number| Once.perform_in(1000 + @draw.rand(1000), number, 0) }
      kept, lost = jids.partition { @draw.rand < 0.7 }
      belongs = kept.to_h { |jid| [jid, waits(jid)["lock_digest"]] }
      lost.each { |jid| ask("DEHYDRATOR.REM", "schedule:once", jid) }
      kept.each do |jid|
        case @draw.rand(4)
        when 0 then waits(jid).add_to_queue
        when 1
          job = Sidekiq.load_json(ask("DEHYDRATOR.PULL", "schedule:once", jid))
          retries.schedule(Time.now.to_f + 500, job)
        end
      end
      reap
      assert_equal belongs.values.sort, digests
      numbers.zip(jids) do |number, jid|
        again = Once.perform_in(100, number, 0)
        lost.include?(jid) ? assert(again) : assert_nil(again)
      end
    end
  end

  def test_a_deleted_job_leaves_no_lock
    jid = Once.perform_in(1000, 1, 0)
    assert_nil Once.perform_in(1000, 1, 0)
    waits(jid).delete
    assert Once.perform_in(1000, 1, 0)
  end

  def test_a_conflict_replaces_a_waiting_job
    jid = Once.perform_in(1000, 1, 0)
    item = waits(jid).item
    assert_equal jid, Sidekiq.load_json(SidekiqUniqueJobs::OnConflict::Replace.new(item).delete_job_by_digest)["jid"]
    refute waits(jid)
    assert_nil SidekiqUniqueJobs::OnConflict::Replace.new(item).delete_job_by_digest
  end
end
