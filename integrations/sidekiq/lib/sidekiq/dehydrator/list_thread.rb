# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Moves jobs from one of Sidekiq's lists into its dehydrator, at once: jobs that came due, and jobs of clients without
  # this gem. Each process has one of these threads for each of its queues. One of them wakes for a job: it moves the job
  # to a second list, atomically, and then all that is in both lists into the dehydrator, atomically too.
  class ListThread < Sleeper
    # How many jobs are moved at once.
    PAGE = 200

    # Moves all jobs of a list. Returns how many, and why the rest stays (nil).
    def self.drain(conn, queue)
      list, transit, total = "queue:#{queue}", Queues.transit(queue), 0
      loop do
        moved, why = Errors.explained { page(conn, queue, transit) }
        total += moved
        waiting = [conn.call("LLEN", list), PAGE].min
        return [total, why] if why || (moved + waiting).zero?

        conn.pipelined { |pipe| waiting.times { pipe.call("LMOVE", list, transit, "RIGHT", "LEFT") } }
      end
    end

    # Moves the oldest jobs of the second list, as many as there is room for. If others have filled that meanwhile, what was
    # refused goes back.
    def self.page(conn, queue, transit)
      key, rows, size, full = Queues.key(queue), [], 0, nil
      replies = Atomic.watching(conn, transit, Waiting.limited(conn, key)) do
        jobs = conn.call("LRANGE", transit, -PAGE, -1).reverse
        room, full = Waiting.room(conn, key, jobs.size)
        size, rows = jobs.first(room).size, rows_of(conn, queue, jobs.first(room))
        put = ["DEHYDRATOR.MPUSH", key, *rows.flat_map { |job, id| [0, job, id] }, "NX"] unless rows.empty?
        [["LTRIM", transit, 0, -size - 1], *([put] if put)] unless size.zero?
      end
      full &&= "#{key} #{full}"
      return [0, full] unless replies

      put, why = replies[1] || [], full
      put, why = [-1] * rows.size, put.message if Atomic.error?(put)
      back = rows.zip(put).filter_map { |(job, _), reply| job unless reply == 1 }
      conn.call("RPUSH", transit, *back.reverse) unless back.empty?
      why ||= "#{key} holds as many jobs as LIMIT allows" if put.include?(-1)
      [size - back.size, why]
    end

    # Returns pairs of a job and an id that is free. A job that is there already was pushed twice.
    def self.rows_of(conn, queue, jobs)
      rows = jobs.map { |job| [job, id(job)] }.uniq
      there = conn.pipelined { |pipe| rows.each { |_, id| pipe.call("DEHYDRATOR.LOOK", Queues.key(queue), id) } }
      seen = {}
      rows.zip(there).filter_map do |(job, id), other|
        next if other == job

        [job, other || seen[id] ? "#{id}:#{SecureRandom.hex(6)}" : seen[id] = id]
      end
    end

    def self.id(job)
      fields = JSON.parse(job)
      jid = fields["jid"] if fields.is_a?(Hash)
      jid.is_a?(String) ? jid : SecureRandom.hex(12)
    rescue JSON::ParserError
      SecureRandom.hex(12)
    end
    private_class_method :page, :rows_of, :id

    def initialize(queue)
      @queue = queue
      super()
    end

    private

    def name
      "list #{@queue}"
    end

    # What a killed process left behind is moved with the next.
    def once
      _, why = ListThread.drain(@connection, @queue)
      raise Refused, why if why

      @connection.blocking_call(2 * BLOCK, "BLMOVE", "queue:#{@queue}", Queues.transit(@queue), "RIGHT", "LEFT", BLOCK)
    end
  end
end
