# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Sidekiq's interface to its queues, with `reliable!`: jobs in dehydrators, and those still in its lists.
  module Reading
    # `Sidekiq::Queue`
    module Queue
      def size
        super + Queues.sizes([name]).first
      end

      def latency
        payload = Queues.oldest(name)
        payload ? [super, Reading.latency(payload)].max : super
      end

      def each(&block)
        super
        Queues.each_from_newest(name) { |payload| yield Sidekiq::JobRecord.new(payload, name) }
      end

      # By id: no scan of all jobs.
      def find_job(jid)
        payload = Queues.find(name, jid)
        payload ? Sidekiq::JobRecord.new(payload, name) : super
      end

      def clear
        Queues.clear(name)
        super
      end
      alias_method :💣, :clear
    end

    # `Sidekiq::JobRecord`
    module JobRecord
      def delete
        super || Queues.delete(@queue, @value)
      end
    end

    # `Sidekiq::Stats`
    module Stats
      # Before Sidekiq 7, that of `Lengths`.
      def queues
        defined?(Sidekiq::Stats::Queues) ? super : Reading.with_sizes(super)
      end

      # From Sidekiq 8 on.
      def queue_summaries
        summaries = super
        sizes = Queues.sizes(summaries.map(&:name))
        summaries.zip(sizes).map { |one, size| one.with(size: one.size + size, latency: Sidekiq::Queue.new(one.name).latency) }
                 .sort_by { |one| -one.size }
      end

      def fetch_stats_fast!
        super
        @stats[:default_queue_latency] = Sidekiq::Queue.new("default").latency
        @stats
      end

      def fetch_stats_slow!
        super
        @stats[:enqueued] += Queues.sizes(Sidekiq.redis { |conn| conn.call("SMEMBERS", QUEUES) }).sum
        @stats
      end
    end

    # `Sidekiq::Stats::Queues`, before Sidekiq 7
    module Lengths
      def lengths
        Reading.with_sizes(super)
      end
    end

    def self.with_sizes(lengths)
      lengths.keys.zip(Queues.sizes(lengths.keys)).to_h { |name, size| [name, lengths[name] + size] }
             .sort_by { |_, size| -size }.to_h
    end

    # In seconds; `enqueued_at` is in seconds or, from Sidekiq 8 on, in ms.
    def self.latency(payload)
      at = Sidekiq.load_json(payload)["enqueued_at"]
      # Whole milliseconds are rounded up.
      at ? [Moment.now - (at.is_a?(Float) ? at : at / 1000.0), 0.0].max : 0.0
    rescue JSON::ParserError
      0.0
    end

    # A page of a queue as Sidekiq's paginator returns it: its number, the total, and payloads, the newest first.
    def self.page(queue, current, page_size, reverse)
      listed = Sidekiq.redis { |conn| conn.call("LRANGE", "queue:#{queue}", 0, -1) }
      total = listed.size + Queues.sizes([queue]).first
      parts = [listed.each, Queues.each_from_newest(queue)]
      parts = [Queues.each_from_oldest(queue), listed.reverse_each] if reverse
      [current, total, parts.sum(Enumerator::Chain.new).lazy.drop((current - 1) * page_size).first(page_size)]
    end
  end
end
