# frozen_string_literal: true

# Jobs that Sidekiq schedules (`perform_in`, `perform_at`, retries) wait in a dehydrator per queue, and the server
# itself pushes them to Sidekiq's list when they are due (DEHYDRATOR.ONDUE ... LIST). No job waits for a poller.
#
#     require "sidekiq-dehydrator"
#
# in the application, after Sidekiq, is all. Instead of Sidekiq's poller, Sidekiq's own sorted sets, `schedule` and
# `retry`, are read every few seconds: jobs from processes without this line are taken over.
#
#     key                    value
#     schedule:<queue>       a dehydrator: scheduled jobs, by job id (Scheduled)
#     retry:<queue>          a dehydrator: failed jobs (Retries)
#     dehydrator:queues      a set: the queues with these keys
#     dehydrator:schedules   a dehydrator: periodic jobs, by name (Schedules)
#
# With `reliable!`:
#
#     dehydrator:queue:<queue>   a dehydrator: the jobs of a queue, by job id (Queues)
#     dehydrator:unique          a dehydrator: the locks of unique jobs (Unique)
#     dehydrator:in:<queue>      a list: jobs on the way from Sidekiq's list into it (ListThread)
#
# The files: `waiting` is one of the two, with its dehydrators; `atomic` has transactions; `takeover` moves
# jobs in and out. The others patch Sidekiq: `client`, `retries`, `sets`, `pages`, `stats`; and `unique_jobs`
# sidekiq-unique-jobs. Periodic jobs: `schedules` makes them, `occurrence` is the job of one, and `schedule_thread`
# pushes it; `web`, which the application requires, shows them. `reliable!`: `reliable` has the
# settings; `fetcher` leases jobs from `queues`, each is a `unit`, and `keeper` renews them; `list_thread` moves jobs from
# Sidekiq's lists; `reading` is Sidekiq's interface to all this; `unique` has the locks of unique jobs.

require "sidekiq"
require "sidekiq/api"
require "sidekiq/job_retry"
require "sidekiq/paginator"

%w[
  errors moment atomic waiting entry takeover client retries sets pages stats unique_jobs occurrence schedules
  own_connection sleeper schedule_thread queues unit poison_pill keeper fetcher list_thread reading unique reliable
].each { |name| require "sidekiq/dehydrator/#{name}" }

module Sidekiq::Dehydrator
  # Makes Sidekiq's queues dehydrators, from which workers lease jobs: what a killed worker had in hand comes again. Call
  # it where Sidekiq is configured, in clients and workers. `lease`: in seconds, how soon another worker gets the jobs of
  # a killed one. `kills`: after how many a job goes to the dead set. `queues`: limits over all processes, by queue, as
  # in `{ "mails" => { held: 5, rate: 100, per: 60 } }`: five at a time, and a hundred a minute.
  def self.reliable!(lease: 30, kills: 3, queues: {})
    Reliable.install(lease: lease, kills: kills, queues: queues)
  end

  # Moves waiting jobs back into Sidekiq's sorted sets and lists. Call it when no process has this gem any more: otherwise the
  # jobs would be taken over again. Periodic jobs are removed. Returns how many jobs it moved.
  def self.leave!
    Leaving.new.run
  end

  # Moves the jobs in Sidekiq's sorted sets into dehydrators. Sidekiq's processes call it when they start, and
  # regularly afterwards. Returns how many jobs it moved.
  def self.take_over
    Takeover.new.run
  end

  # Raises an explanation if the server lacks the module, or has an old one. Who may not read INFO finds out by the next
  # command.
  def self.check
    Errors.check(Sidekiq.redis { |conn| conn.call("INFO", "dehydrator") })
  rescue Errors::COMMAND => error
    raise unless error.message.start_with?("NOPERM")
  end
end

Sidekiq::Client.prepend(Sidekiq::Dehydrator::Client)
Sidekiq::Dehydrator::Retries.install
Sidekiq::ScheduledSet.prepend(Sidekiq::Dehydrator::Sets)
Sidekiq::RetrySet.prepend(Sidekiq::Dehydrator::Sets)
Sidekiq::Dehydrator::Pages.install
Sidekiq::Stats.prepend(Sidekiq::Dehydrator::Stats)
Sidekiq::Dehydrator::UniqueJobs.install

Sidekiq.configure_server do |config|
  # Sidekiq's setting for a replacement of its poller.
  (config.respond_to?(:[]=) ? config : config.options)[:scheduled_enq] = Sidekiq::Dehydrator::Takeover
  config.on(:startup) do
    # It may have been loaded later.
    Sidekiq::Dehydrator::UniqueJobs.install
    Sidekiq::Dehydrator.check
    Sidekiq::Dehydrator.take_over
  end
  Sidekiq::Dehydrator::ScheduleThread.install(config)
end
