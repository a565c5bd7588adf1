# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # A job that waits in a dehydrator, as Sidekiq's sets and pages hand it out.
    class Entry < Sidekiq::SortedEntry
      def initialize(set, row)
        super(set, row.deadline / 1000.0, row.element)
        @row = row
        # It says when it will be in the queue. Nobody is to read that it is there already.
        @item = @item.except("enqueued_at")
      end

      # Returns what Sidekiq's own does: from version 7 on how many, before whether it was there.
      def delete
        count = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.REM", @row.key, @row.id) }
        Sidekiq::VERSION.to_i < 7 ? count.positive? : count
      end

      def reschedule(at)
        move(at.to_f) { |job| job }
        @score = at.to_f
      end

      # The server pushes it, as what is due: there is no moment in which it could be lost.
      def add_to_queue
        move(Moment.now) { |job| job }
      end

      def retry
        move(Moment.now) { |job| job["retry_count"] ? job.merge("retry_count" => job["retry_count"] - 1) : job }
      end

      def kill
        message = Sidekiq.redis do |conn|
          Scripts::KILL.call(conn, [@row.key, "dead"], [@row.id, Moment.now.to_s])
        end
        # It is among the dead already. This trims them, and calls the death handlers.
        Sidekiq::DeadSet.new.kill(message) if message
      end

      # What a page is given to show.
      def shown
        @item.empty? ? @row.element : Sidekiq.dump_json(@item)
      end

      private

      def move(at)
        element = Waiting.element(yield(Sidekiq.load_json(@row.element)), at)
        Sidekiq.redis { |conn| Scripts::MOVE.call(conn, [@row.key], [@row.id, element, Moment.ttl(at)]) }
      end

      def remove_job
        message = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.PULL", @row.key, @row.id) }
        yield message if message
      end
    end
  end
end
