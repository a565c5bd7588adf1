# frozen_string_literal: true

# What the gem patches of sidekiq-unique-jobs, for machines without it: with the sources (UNIQUE_JOBS_SOURCES), the same
# tests run on the real one.
module SidekiqUniqueJobs
  module Unlockable
    def self.delete!(item)
      Sidekiq.redis { |conn| conn.call("DEL", "#{item["lock_digest"]}:LOCKED") }
    end
  end

  module Orphans
    class RubyReaper
      def initialize(conn)
        @conn = conn
      end

      def call
        digests = @conn.call("ZRANGE", "uniquejobs:digests", 0, -1)
        digests.reject { |digest| found?(digest) }.each do |digest|
          @conn.call("DEL", "#{digest}:LOCKED")
          @conn.call("ZREM", "uniquejobs:digests", digest)
        end
      end

      def found?(digest)
        in_sorted_set?("schedule", digest) || in_sorted_set?("retry", digest) ||
          Sidekiq::Queue.all.any? { |queue| queue.any? { |job| job.value.include?(digest) } }
      end

      def in_sorted_set?(key, digest)
        @conn.call("ZRANGE", key, 0, -1).any? { |job| job.include?(digest) }
      end
    end
  end

  module OnConflict
    class Replace
      attr_reader :lock_digest

      def initialize(item)
        @lock_digest = item["lock_digest"]
      end

      def delete_job_by_digest
        nil
      end
    end
  end

  module Middleware
    class Client
      def call(_, item, *)
        digest = item["lock_digest"] = "uniquejobs:#{item["args"].inspect.hash.abs}"
        taken = Sidekiq.redis { |conn| conn.call("HKEYS", "#{digest}:LOCKED") }
        return unless (taken - [item["jid"]]).empty?

        Sidekiq.redis do |conn|
          conn.call("HSET", "#{digest}:LOCKED", item["jid"], "1")
          conn.call("ZADD", "uniquejobs:digests", "1", digest)
        end
        yield
      end
    end
  end
end

module Sidekiq
  class SortedEntry
    module UniqueExtension
      def delete
        SidekiqUniqueJobs::Unlockable.delete!(item) if super
        item
      end
    end
    prepend UniqueExtension
  end
end
