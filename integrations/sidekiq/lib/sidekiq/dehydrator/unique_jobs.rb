# frozen_string_literal: true

module Sidekiq::Dehydrator
  # sidekiq-unique-jobs, if it is loaded: its locks belong to jobs in dehydrators too. Its reaper deletes the locks of
  # jobs that it does not find, and `on_conflict: :replace` replaces those that it finds.
  module UniqueJobs
    # `SidekiqUniqueJobs::Orphans::RubyReaper`
    module Reaping
      def in_sorted_set?(key, digest)
        super || !UniqueJobs.find(Waiting.named(key), digest).nil?
      end
    end

    # `SidekiqUniqueJobs::OnConflict::Replace`
    module Replacing
      def delete_job_by_digest
        super || UniqueJobs.take(lock_digest)
      end
    end

    def self.install
      return if @installed || !defined?(::SidekiqUniqueJobs::Orphans::RubyReaper)

      @installed = true
      ::SidekiqUniqueJobs::Orphans::RubyReaper.prepend(Reaping)
      ::SidekiqUniqueJobs::OnConflict::Replace.prepend(Replacing)
      # It unlocks deleted jobs. `Entry` overrides the method of `SortedEntry`, which it extends.
      Entry.prepend(Sidekiq::SortedEntry::UniqueExtension)
    end

    # Returns the row of a job with this digest. Usually it is one that holds the lock, which is found by its id.
    # Otherwise this reads all jobs, as the reaper does in sorted sets.
    def self.find(waiting, digest)
      holders = Sidekiq.redis { |conn| conn.call("HKEYS", "#{digest}:LOCKED") }
      waiting.find_all_by_id(holders).find { |row| row.element.include?(digest) } ||
        waiting.enum_for(:each_row).find { |row| row.element.include?(digest) }
    end

    # Removes the job with this digest, and returns its payload.
    def self.take(digest)
      Waiting::BOTH.each do |waiting|
        row = find(waiting, digest)
        element = row && Sidekiq.redis { |conn| conn.call("DEHYDRATOR.PULL", row.key, row.id) }
        return element if element
      end
      nil
    end
  end
end
