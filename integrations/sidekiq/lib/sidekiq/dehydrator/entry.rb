# frozen_string_literal: true

module Sidekiq::Dehydrator
  # A job in a dehydrator, as Sidekiq's sets and pages return it.
  class Entry < Sidekiq::SortedEntry
    def initialize(set, row)
      super(set, row.deadline / 1000.0, row.element)
      @row = row
      # The time is in the future: a reader must not take it for enqueued.
      @item = @item.except("enqueued_at")
    end

    # Returns what Sidekiq's own method does: a count from version 7 on, before that whether it existed.
    def delete
      count = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.REM", @row.key, @row.id) }
      Sidekiq::VERSION.to_i < 7 ? count.positive? : count
    end

    def reschedule(at)
      move(at.to_f) { |job| job }
      @score = at.to_f
    end

    # The server pushes it like a due job, so it cannot be lost.
    def add_to_queue
      move(Moment.now) { |job| job }
    end

    def retry
      move(Moment.now) { |job| job["retry_count"] ? job.merge("retry_count" => job["retry_count"] - 1) : job }
    end

    def kill
      element = nil
      Sidekiq.redis do |conn|
        Atomic.kill(conn, ["DEHYDRATOR.PULL", @row.key, @row.id], @row.element) { |pulled| (element = pulled) == @row.element }
      end
      # It is in the dead set already, unless it changed meanwhile. This trims the set, and calls the death handlers.
      Sidekiq::DeadSet.new.kill(element) if element
    end

    # The fields for a page.
    def shown
      @item.empty? ? @row.element : Sidekiq.dump_json(@item)
    end

    private

    def move(at)
      element = Waiting.element(yield(Sidekiq.load_json(@row.element)), at)
      Sidekiq.redis do |conn|
        updated, touched = Atomic.all(conn, [["DEHYDRATOR.UPDATE", @row.key, @row.id, element],
                                             ["DEHYDRATOR.TOUCH", @row.key, Moment.ttl(at), @row.id]])
        raise updated if Atomic.error?(updated) && !updated.message.start_with?("NOSUCHID")

        touched
      end
    end

    def remove_job
      message = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.PULL", @row.key, @row.id) }
      yield message if message
    end
  end
end
