# frozen_string_literal: true

require "digest/sha1"

module Sidekiq::Dehydrator
  # The keys of Sidekiq in the server.
  QUEUES = "queues"
  OURS = "dehydrator:queues"

  # A job: its place, its id, its deadline in unix ms, the payload (nil if it was not requested), and whether it waits:
  # no worker has it.
  Row = Struct.new(:key, :id, :deadline, :element, :waits)

  # All scheduled jobs, or all retries: a dehydrator per queue, beside Sidekiq's sorted set of the same name.
  class Waiting
    # How many rows to read at once.
    PAGE = 500

    # In ms: a time later than any deadline, and the first window when reading from the last job on.
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

    # Stores jobs: `pairs` of a job, which has its queue and its id, and its time.
    def put(conn, pairs)
      Errors.patient(conn) { send_all(conn, pairs) }
    end

    def take_back(conn, jobs)
      jobs.group_by { |job| job["queue"] }.each do |queue, all|
        all.each_slice(1000) { |some| conn.call("DEHYDRATOR.REM", key(queue), *some.map { |job| job["jid"] }) }
      end
    end

    # Returns a job's element: what Sidekiq would push to the list at that time.
    def self.element(job, at)
      Sidekiq.dump_json(job.reject { |name, _| name == "at" }.merge("enqueued_at" => Moment.enqueued_at(at)))
    end

    # A job without an id or a queue cannot wait here.
    def self.fits?(job)
      job["jid"].is_a?(String) && job["queue"].is_a?(String)
    end

    # Another job may wait with the same job id, as in a sorted set: then this is its id.
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

    # Yields the rows of all queues, each queue's in the order of deadlines.
    def each_row(**options, &block)
      all_keys.each { |key| rows_of(key, **options, &block) }
    end

    # Yields the rows of all queues, the last due first, like Sidekiq's sets.
    def each_row_from_last(&block)
      sources = all_keys.map { |key| enum_for(:from_last, key) }
      Waiting.merge(sources) { |row| -row.deadline }.each(&block)
    end

    # Returns the rows of all queues, in the order of deadlines, without their elements.
    def in_order
      sources = all_keys.map { |key| rows_of(key, elements: false) }
      Waiting.merge(sources) { |row| row.deadline }
    end

    # Adds missing fields to rows; omits jobs that are gone meanwhile.
    def with_elements(rows)
      return [] if rows.empty?

      found = Sidekiq.redis do |conn|
        conn.pipelined { |pipe| rows.each { |row| pipe.call("DEHYDRATOR.LOOK", row.key, row.id) } }
      end
      rows.zip(found).filter_map { |row, element| Row.new(row.key, row.id, row.deadline, element) if element }
    end

    def find_all_by_id(ids)
      keys = all_keys
      ids.flat_map { |id| keys.filter_map { |key| look(key, id) } }
    end

    def find(jid, keys = all_keys)
      found = keys.lazy.filter_map { |key| look(key, jid) }.first
      found || keys.lazy.filter_map { |key| others_of(key, jid).filter_map { |id| look(key, id) }.first }.first
    end

    def clear
      keys = all_keys
      Sidekiq.redis { |conn| conn.unlink(*keys) } unless keys.empty?
    end

    def all_keys
      Sidekiq.redis { |conn| conn.smembers(OURS) }.sort.map { |queue| key(queue) }
    end

    # Merges sorted enumerators, by the key that the block returns.
    def self.merge(sources)
      Enumerator.new do |out|
        left = sources.select { |source| more?(source) }
        until left.empty?
          first = left.min_by { |source| yield source.peek }
          out << first.next
          left.delete(first) unless more?(first)
        end
      end
    end

    def self.more?(source)
      source.peek
      true
    rescue StopIteration
      false
    end
    private_class_method :more?

    # Two jobs are the same if their contents are, whenever they were stored.
    def self.known_by(job)
      job.reject { |name, _| %w[enqueued_at at].include?(name) }
    end

    def rows_of(key, from: "-", to: "+", elements: true)
      return enum_for(:rows_of, key, from: from, to: to, elements: elements) unless block_given?

      until from.nil?
        from, rows = range(key, from, to, elements: elements)
        rows.each { |row| yield row }
      end
    end

    # Returns the start of the next page, or nil, and rows.
    def range(key, from, to, elements: true, count: PAGE)
      following, rows = Sidekiq.redis do |conn|
        conn.call("DEHYDRATOR.RANGE", key, from, to, "COUNT", count, *("WITHELEMENTS" if elements))
      end
      [following, rows.map { |id, deadline, _, _, leased, element| Row.new(key, id, deadline, element, leased.zero?) }]
    end

    # RANGE lists from the first on. So this finds the last deadline by bisection, and then reads windows that end
    # there, of about a page each.
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

    # Returns the row of a job, or nil.
    def look(key, id)
      found = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.LOOK", key, id, "FULL") }
      return if found.nil?

      found = Waiting.fields(found)
      Row.new(key, id, found["deadline"], found["element"], found["leased"].zero?)
    end

    # A map of the server: in RESP2 it is an array.
    def self.fields(reply)
      reply.is_a?(Array) ? reply.each_slice(2).to_h : reply
    end

    # Returns a key whose length is limited. If it is watched, what has been found to fit is not refused.
    def self.limited(conn, key)
      key unless fields(conn.call("DEHYDRATOR.INFO", key))["length-limit"].zero?
    rescue Errors::COMMAND
      nil
    end

    # Returns how many of so many jobs fit into a key, and why no more do.
    def self.room(conn, key, count)
      told = fields(conn.call("DEHYDRATOR.INFO", key))
      room = told["length-limit"].zero? ? count : [told["length-limit"] - told["length"], 0].max
      [room, ("holds as many jobs as LIMIT allows" if room < count)]
    rescue Errors::COMMAND => error
      Errors::ANOTHER_SERVER.match?(error.message) ? raise : [0, error.message]
    end

    private

    def send_all(conn, pairs)
      groups = pairs.group_by { |job, _| job["queue"] }
      replies = Atomic.all(conn, groups.flat_map { |queue, some| commands(queue, some) })
      puts = replies.each_slice(4).map(&:last)
      refused = replies.find { |reply| Atomic.error?(reply) }
      full = groups.keys.zip(puts).find { |_, put| !Atomic.error?(put) && put.include?(-1) }&.first
      if refused || full
        take_back(conn, groups.values.zip(puts).flat_map { |some, put| stored(some, put) })
        raise refused ? Errors.named(refused) : Refused.new("#{key(full)} holds as many jobs as LIMIT allows")
      end
      groups.values.flatten(1).zip(puts.flatten) { |(job, at), put| put_beside(conn, key(job["queue"]), job, at) if put.zero? }
    end

    def commands(queue, some)
      [["DEHYDRATOR.ONDUE", key(queue), "LIST", "queue:#{queue}", "LEFT"], ["SADD", QUEUES, queue], ["SADD", OURS, queue],
       ["DEHYDRATOR.MPUSH", key(queue), *words(some), "NX"]]
    end

    def stored(some, put)
      Atomic.error?(put) ? [] : some.zip(put).filter_map { |(job, _), reply| job if reply == 1 }
    end

    # Reads the clock last, because every delay here makes the jobs late, and once, so that their order stays.
    def words(pairs)
      ready = pairs.map { |job, at| [at, Waiting.element(job, at), job["jid"]] }
      now = Moment.now
      ready.flat_map { |at, *rest| [Moment.ttl(at, now), *rest] }
    end

    # Its id exists. If it is the same job (its reply was lost, or it gets another time), it is replaced.
    def put_beside(conn, key, job, at)
      there = conn.call("DEHYDRATOR.LOOK", key, job["jid"])
      same = there.nil? || Waiting.known_by(Sidekiq.load_json(there)) == Waiting.known_by(round_trip(job))
      id = same ? job["jid"] : Waiting.other_id(job)
      conn.call("DEHYDRATOR.PUSH", key, Moment.ttl(at), Waiting.element(job, at), id, "REPLACE")
    end

    def round_trip(job)
      Sidekiq.load_json(Sidekiq.dump_json(job))
    end
  end
end
