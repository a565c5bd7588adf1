# frozen_string_literal: true

module Sidekiq::Dehydrator
  # A job that is not given out any more: its worker was killed too often, or lost its lease.
  class PoisonPill < StandardError
    # Moves a leased job to the dead set.
    def self.bury(conn, unit)
      times = unit.deliveries - 1
      error = new("#{times} workers died, or lost their lease, while they had this job")
      told = { "error_class" => name, "error_message" => error.message, "failed_at" => Moment.enqueued_at(Moment.now) }
      payload = unit.fields.empty? ? unit.job : Sidekiq.dump_json(unit.fields.merge(told))
      settle = ["DEHYDRATOR.SETTLE", unit.key, unit.token, unit.id]
      return unless Atomic.kill(conn, settle, payload) { |settled| settled == [1] }

      Sidekiq.logger.error { "#{unit.queue_name}: to the dead set: #{error.message}: #{unit.job[0, 200]}" }
      # It is in the dead set already. This trims the set, and calls the death handlers.
      Sidekiq::DeadSet.new.kill(payload, { ex: error, notify_failure: !unit.fields.empty? })
    end
  end
end
