# frozen_string_literal: true

require "securerandom"

module Sidekiq::Dehydrator
  # Sidekiq's queues as dehydrators, `dehydrator:queue:<name>`. The id of a job is its job id, or that and a number if
  # another job has it.
  module Queues
    JOBS = Waiting.new("dehydrator:queue")

    class << self
      def key(queue)
        JOBS.key(queue)
      end

      # The jobs that a mover took from the list, but has not put into the dehydrator yet.
      def transit(queue)
        "dehydrator:in:#{queue}"
      end

      # Pushes payloads as Sidekiq's client does. All or none, if there is a limit. One that comes again, as it was and of
      # the same moment, is the same job.
      def push(conn, payloads, moment: Moment.enqueued_at(Moment.now))
        Errors.patient(conn) { push_all(conn, payloads, moment) }
      end

      # For a worker that starts: names its queues, and sets their limits.
      def prepare(names)
        Sidekiq.redis do |conn|
          conn.call("SADD", OURS, *names)
          Reliable.settings.queues.each { |name, limits| conn.call("DEHYDRATOR.LIMIT", key(name), *words(**limits)) }
        end
      end

      # How many jobs wait: all but those that a worker has.
      def sizes(names)
        return [] if names.empty?

        Sidekiq.redis do |conn|
          replies = conn.pipelined { |pipe| names.each { |name| pipe.call("DEHYDRATOR.INFO", key(name)) } }
          replies.map { |reply| Waiting.fields(reply)["due"] }
        end
      end

      # Returns the payload of the job that has waited longest; nil if none waits.
      def oldest(name)
        row = JOBS.range(key(name), "-", "+", count: 1).last.first
        row.element if row&.waits
      end

      # Yields payloads, the newest first.
      def each_from_newest(name)
        return enum_for(:each_from_newest, name) unless block_given?

        JOBS.from_last(key(name)) { |row| yield row.element if row.waits }
      end

      def each_from_oldest(name)
        return enum_for(:each_from_oldest, name) unless block_given?

        JOBS.rows_of(key(name)) { |row| yield row.element if row.waits }
      end

      # Returns the payload of a job that waits.
      def find(name, jid)
        row = JOBS.find(jid, [key(name)])
        row.element if row&.waits
      end

      # Removes a job that waits, by its payload. Returns whether it was there.
      def delete(name, payload)
        jid = Sidekiq.load_json(payload)["jid"]
        ids = [jid, *JOBS.others_of(key(name), jid)]
        rows = ids.filter_map { |id| JOBS.look(key(name), id) }
        row = rows.find { |one| one.waits && one.element == payload }
        !row.nil? && Sidekiq.redis { |conn| conn.call("DEHYDRATOR.REM", row.key, row.id) } == 1
      rescue JSON::ParserError, NoMethodError
        false
      end

      # Jobs that are being worked on stay, as with Sidekiq.
      def clear(name)
        ids = JOBS.rows_of(key(name), elements: false).select(&:waits).map(&:id)
        ids.each_slice(1000) { |some| Sidekiq.redis { |conn| conn.call("DEHYDRATOR.REM", key(name), *some) } }
      end

      private

      # `rate` jobs in `per` seconds.
      def words(held: nil, rate: nil, per: 1)
        [*(["HELD", held] if held), *(["RATE", rate, "PER", (per * 1000).to_i] if rate)]
      end

      def push_all(conn, payloads, moment)
        groups = payloads.group_by { |job| job["queue"] }
        again, groups = interrupted(groups)
        rows = groups.transform_values { |jobs| jobs.map { |job| [dump(job, moment), job["jid"] || SecureRandom.hex(12)] } }
        replies = conn.pipelined do |pipe|
          pipe.call("SADD", QUEUES, *payloads.map { |job| job["queue"] }.uniq)
          rows.each { |queue, some| pipe.call("DEHYDRATOR.MPUSH", key(queue), *some.flat_map { |row| [0, *row] }, "NX") }
          again&.then { |unit, job| pipe.call("DEHYDRATOR.PUSH", unit.key, 0, dump(job, moment), unit.id, "REPLACE") }
        end
        look_at(conn, rows, replies.drop(1))
      end

      # An interrupted job pushes itself while it is held: that ends its lease.
      def interrupted(groups)
        unit = Thread.current[:sidekiq_dehydrator_unit]
        job = unit && groups[unit.queue_name]&.find { |one| one["jid"] == unit.jid }
        return [nil, groups] unless job && unit.same?(job)

        rest = groups[unit.queue_name] - [job]
        [[unit, job], rest.empty? ? groups.except(unit.queue_name) : groups.merge(unit.queue_name => rest)]
      end

      def dump(job, moment)
        Sidekiq.dump_json(job.merge!("enqueued_at" => moment))
      end

      def look_at(conn, rows, replies)
        replies = rows.keys.zip(replies).to_h
        refused = rows.keys.find { |queue| replies[queue].include?(-1) }
        take_back(conn, rows, replies, refused) if refused
        rows.each do |queue, some|
          some.zip(replies[queue]) { |row, reply| push_beside(conn, queue, *row) if reply.zero? }
        end
      end

      def take_back(conn, rows, replies, refused)
        rows.each do |queue, some|
          ids = some.zip(replies[queue]).filter_map { |(_, id), reply| id if reply == 1 }
          conn.call("DEHYDRATOR.REM", key(queue), *ids) unless ids.empty?
        end
        raise Refused, "#{key(refused)} holds as many jobs as LIMIT allows"
      end

      # Its id exists: it is the same job, whose reply was lost, or another one.
      def push_beside(conn, queue, payload, id)
        return if conn.call("DEHYDRATOR.LOOK", key(queue), id) == payload

        Errors.explained { conn.call("DEHYDRATOR.PUSH", key(queue), 0, payload, "#{id}:#{SecureRandom.hex(6)}", "NX") }
      end
    end
  end
end
