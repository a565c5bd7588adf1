# frozen_string_literal: true

# What Sidekiq's `perform_in`, `perform_at` and failed jobs put off waits in a dehydrator for each queue, and the server itself
# pushes it to Sidekiq's list when it is due (DEHYDRATOR.ONDUE ... LIST). No job waits for a poller.
#
#     require "sidekiq-dehydrator"
#
# in the application, once Sidekiq is there, is all. Sidekiq's own sorted sets, `schedule` and `retry`, are read every few
# seconds, in the place of Sidekiq's poller: what a process without this line puts there is taken over.
#
#     key                    what
#     schedule:<queue>       a dehydrator: what is put off, by job id (Scheduled)
#     retry:<queue>          a dehydrator: what failed (Retries)
#     dehydrator:queues      a set: the queues that have those
#
# The rooms: `waiting` is one of the two, with its dehydrators; `scripts` what must be done in one step; `takeover` moves
# jobs in and out. The others are doors in Sidekiq's walls: `client`, `retries`, `sets`, `pages`, `stats`.

require "sidekiq"
require "sidekiq/api"
require "sidekiq/job_retry"
require "sidekiq/paginator"

require "sidekiq/dehydrator/errors"
require "sidekiq/dehydrator/moment"
require "sidekiq/dehydrator/scripts"
require "sidekiq/dehydrator/waiting"
require "sidekiq/dehydrator/entry"
require "sidekiq/dehydrator/takeover"
require "sidekiq/dehydrator/client"
require "sidekiq/dehydrator/retries"
require "sidekiq/dehydrator/sets"
require "sidekiq/dehydrator/pages"
require "sidekiq/dehydrator/stats"

module Sidekiq
  module Dehydrator
    # Moves what waits back into Sidekiq's sorted sets. To be called when no process has this gem any more: one that has would
    # take it over again. Returns how many jobs it moved.
    def self.leave!
      Leaving.new.run
    end

    # Moves what waits in Sidekiq's sorted sets into dehydrators. Sidekiq's processes do it when they start, and again now
    # and then. Returns how many jobs it moved.
    def self.take_over
      Takeover.new.run
    end

    # Raises what is wrong if the server lacks the module, or has an old one.
    def self.check
      Sidekiq.redis do |conn|
        Errors.explained { conn.call("DEHYDRATOR.REJECT") }
      rescue Errors::COMMAND => error
        raise unless error.message.include?("wrong number of arguments")
      end
    end
  end
end

Sidekiq::Client.prepend(Sidekiq::Dehydrator::Client)
Sidekiq::Dehydrator::Retries.install
Sidekiq::ScheduledSet.prepend(Sidekiq::Dehydrator::Sets)
Sidekiq::RetrySet.prepend(Sidekiq::Dehydrator::Sets)
Sidekiq::Dehydrator::Pages.install
Sidekiq::Stats.prepend(Sidekiq::Dehydrator::Stats)

Sidekiq.configure_server do |config|
  # The place that Sidekiq has for those who replace its poller's work.
  (config.respond_to?(:[]=) ? config : config.options)[:scheduled_enq] = Sidekiq::Dehydrator::Takeover
  config.on(:startup) do
    Sidekiq::Dehydrator.check
    Sidekiq::Dehydrator.take_over
  end
end
