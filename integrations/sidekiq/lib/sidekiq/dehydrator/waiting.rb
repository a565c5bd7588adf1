# frozen_string_literal: true

require "digest/sha1"

module Sidekiq
  module Dehydrator
    # Where Sidekiq's names stand in the server.
    QUEUES = "queues"
    OURS = "dehydrator:queues"

    # One job that waits: where, its id, when it is due in unix ms, and what is pushed then (nil if nobody asked).
    Row = Struct.new(:key, :id, :deadline, :element)

    # All that is scheduled, or all that is to be retried: a dehydrator for each queue. It stands beside Sidekiq's sorted set of
    # the same name.
    class Waiting
      # How many rows to ask for at once.
      PAGE = 500

      # In ms: a moment after which there is none, and how wide the first window is that is read from the last on.
      NEVER = 2**63 - 1
      SECOND = 1000

      attr_reader :name

      def initialize(name)
        @name = name
      end

      SCHEDULE = new("schedule")
      RETRY = new("retry")
      BOTH = [SCHEDULE, RETRY].freeze

      def self.named(name)
        BOTH.find { |waiting| waiting.name == name }
      end

      def key(queue)
        "#{name}:#{queue}"
      end

      # Puts jobs away: `pairs` are of a job, which names its queue and its id, and of its moment.
      def put(conn, pairs)
        Errors.patient(conn) { send_all(conn, pairs) }
      end

      def take_back(conn, jobs)
        jobs.group_by { |job| job["queue"] }.each do |queue, all|
          all.each_slice(1000) { |some| conn.call("DEHYDRATOR.REM", key(queue), *some.map { |job| job["jid"] }) }
        end
      end

      # What a job's element says: what Sidekiq would push to the list at that moment.
      def self.element(job, at)
        Sidekiq.dump_json(job.reject { |name, _| name == "at" }.merge("enqueued_at" => Moment.enqueued_at(at)))
      end

      # What has no id or no queue cannot wait here.
      def self.fits?(job)
        job["jid"].is_a?(String) && job["queue"].is_a?(String)
      end

      # Another job may wait under the same job id, as in a sorted set: this is then its id.
      def self.other_id(job)
        "#{job["jid"]}:#{Digest::SHA1.hexdigest(Sidekiq.dump_json(known_by(job)))[0, 16]}"
      end

      def size
        keys = all_keys
        return 0 if keys.empty?

        Sidekiq.redis do |conn|
          Errors.explained { conn.pipelined { |pipe| keys.each { |key| pipe.call("DEHYDRATOR.LEN", key) } } }.sum
        end
      end

      # Yields the rows of all queues, each queue's in the order in which they are due.
      def each_row(**options, &block)
        all_keys.each { |key| rows_of(key, **options, &block) }
      end

      # Yields the rows of all queues, the last due first, as Sidekiq's sets do.
      def each_row_from_last(&block)
        sources = all_keys.map { |key| enum_for(:from_last, key) }
        merge(sources) { |row| -row.deadline }.each(&block)
      end

      # The rows of all queues, in the order in which they are due, without their elements.
      def in_order
        sources = all_keys.map { |key| rows_of(key, elements: false) }
        merge(sources) { |row| row.deadline }
      end

      # Fills in what rows lack; those that are gone meanwhile are left out.
      def with_elements(rows)
        return [] if rows.empty?

        found = Sidekiq.redis do |conn|
          conn.pipelined { |pipe| rows.each { |row| pipe.call("DEHYDRATOR.LOOK", row.key, row.id) } }
        end
        rows.zip(found).filter_map { |row, element| Row.new(row.key, row.id, row.deadline, element) if element }
      end

      def find(jid)
        keys = all_keys
        found = keys.filter_map { |key| look(key, jid) }.first
        found || keys.lazy.filter_map { |key| others_of(key, jid).filter_map { |id| look(key, id) }.first }.first
      end

      def clear
        keys = all_keys
        Sidekiq.redis { |conn| conn.unlink(*keys) } unless keys.empty?
      end

      def all_keys
        Sidekiq.redis { |conn| conn.smembers(OURS) }.sort.map { |queue| key(queue) }
      end

      # Merges enumerators that are in order, by what the block says.
      def self.merge(sources)
        Enumerator.new do |out|
          heads = sources.filter_map { |source| peek(source) }
          until heads.empty?
            row, source = heads.min_by { |head, _| yield head }
            out << row
            source.next
            heads.delete_if { |_, other| other.equal?(source) }
            following = peek(source)
            heads << following if following
          end
        end
      end

      def self.peek(source)
        [source.peek, source]
      rescue StopIteration
        nil
      end
      private_class_method :peek

      # The same job is one that says the same, whenever it was put away.
      def self.known_by(job)
        job.reject { |name, _| %w[enqueued_at at].include?(name) }
      end

      private

      def merge(sources, &block)
        Waiting.merge(sources, &block)
      end

      def send_all(conn, pairs)
        groups = pairs.group_by { |job, _| job["queue"] }
        keys = [QUEUES, OURS, *groups.keys.flat_map { |queue| [key(queue), "queue:#{queue}"] }]
        replies = Scripts::PUT.call(conn, keys, groups.flat_map { |queue, some| [queue, 3 * some.size, *words(some)] })
        groups.values.flatten(1).zip(replies) { |(job, at), put| put_beside(conn, key(job["queue"]), job, at) if put.zero? }
      rescue Errors::COMMAND => error
        raise error.message.start_with?("FULL") ? Refused.new(error.message) : error
      end

      # The clock is read when all else is ready: what is late here comes late.
      def words(pairs)
        ready = pairs.map { |job, at| [at, Waiting.element(job, at), job["jid"]] }
        ready.flat_map { |at, *rest| [Moment.ttl(at), *rest] }
      end

      # Its id is there. If it is the same job (its reply was lost, or it is given another moment), it takes the place.
      def put_beside(conn, key, job, at)
        there = conn.call("DEHYDRATOR.LOOK", key, job["jid"])
        same = there.nil? || Waiting.known_by(Sidekiq.load_json(there)) == Waiting.known_by(round_trip(job))
        id = same ? job["jid"] : Waiting.other_id(job)
        conn.call("DEHYDRATOR.PUSH", key, Moment.ttl(at), Waiting.element(job, at), id, "REPLACE")
      end

      def round_trip(job)
        Sidekiq.load_json(Sidekiq.dump_json(job))
      end

      def rows_of(key, from: "-", to: "+", elements: true)
        return enum_for(:rows_of, key, from: from, to: to, elements: elements) unless block_given?

        until from.nil?
          from, rows = range(key, from, to, elements: elements)
          rows.each { |row| yield row }
        end
      end

      # Where the next page begins, or nil, and rows.
      def range(key, from, to, elements: true, count: PAGE)
        following, rows = Sidekiq.redis do |conn|
          conn.call("DEHYDRATOR.RANGE", key, from, to, "COUNT", count, *("WITHELEMENTS" if elements))
        end
        [following, rows.map { |id, deadline, *, element| Row.new(key, id, deadline, elements ? element : nil) }]
      end

      # RANGE lists from the first on. So the last moment is found by halving, and then windows are read that end there, of about a
      # page each.
      def from_last(key, &block)
        return rows_of(key).to_a.reverse_each(&block) if Sidekiq.redis { |conn| conn.call("DEHYDRATOR.LEN", key) } <= PAGE

        first = range(key, "-", "+", elements: false, count: 1).last.first&.deadline
        last = first && (first..NEVER).bsearch { |moment| range(key, "(#{moment}", "+", elements: false, count: 1).last.empty? }
        width = SECOND
        while first && last >= first
          from = [last - width + 1, first].max
          more, rows = range(key, from, last)
          if more && from < last
            width = (last - from + 1) / 2
          else
            rows = rows_of(key, from: from, to: last).to_a if more
            rows.reverse_each(&block)
            last = from - 1
            width *= 2 if rows.size < PAGE / 2
          end
        end
      end

      def look(key, id)
        found = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.LOOK", key, id, "FULL") }
        return if found.nil?

        found = found.each_slice(2).to_h if found.is_a?(Array)
        Row.new(key, id, found["deadline"], found["element"])
      end

      def others_of(key, jid)
        pattern = "#{jid.gsub(/[*?\[\]\\]/) { |sign| "\\#{sign}" }}:*"
        ids = []
        cursor = "0"
        loop do
          cursor, some = Sidekiq.redis do |conn|
            conn.call("DEHYDRATOR.SCAN", key, cursor, "MATCH", pattern, "COUNT", 1000)
          end
          ids.concat(some)
          return ids if cursor == "0"
        end
      end
    end
  end
end
