# frozen_string_literal: true

module Sidekiq::Dehydrator
  # `Sidekiq::ScheduledSet` and `Sidekiq::RetrySet`: jobs in dehydrators, and jobs that are still in Sidekiq's sorted
  # set.
  module Sets
    def size
      super + waiting.size
    end

    def each(&block)
      super
      waiting.each_row_from_last { |row| yield Entry.new(self, row) }
    end

    def scan(match, count = 100, &block)
      return to_enum(:scan, match, count) unless block

      super
      pattern = match.include?("*") ? match : "*#{match}*"
      waiting.each_row do |row|
        yield Entry.new(self, row) if File.fnmatch?(pattern, row.element, File::FNM_DOTMATCH)
      end
    end

    def fetch(score, jid = nil)
      first, last = score.is_a?(Range) ? [score.first, score.last] : [score, score]
      entries = super
      waiting.each_row(from: moment(first, :floor), to: moment(last, :ceil)) do |row|
        entry = Entry.new(self, row)
        entries << entry if jid.nil? || entry.jid == jid
      end
      entries
    end

    # By id: no scan of all waiting jobs.
    def find_job(jid)
      row = waiting.find(jid)
      row ? Entry.new(self, row) : super
    end

    def schedule(timestamp, job)
      job = Sidekiq.load_json(Sidekiq.dump_json(job))
      return super unless Waiting.fits?(job)

      Sidekiq.redis { |conn| waiting.put(conn, [[job, timestamp.to_f]]) }
    end

    def delete_by_value(name, value)
      row = waiting.find(Sidekiq.load_json(value)["jid"].to_s)
      row && row.element == value ? Entry.new(self, row).delete : super
    end

    def delete_by_jid(score, jid)
      ours = fetch(score, jid).find { |entry| entry.is_a?(Entry) }
      ours ? ours.delete : super
    end
    alias_method :delete, :delete_by_jid

    def clear
      super
      waiting.clear
      true
    end
    alias_method :💣, :clear

    def pop_each
      super
      waiting.each_row do |row|
        element = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.PULL", row.key, row.id) }
        yield element, row.deadline / 1000.0 if element
      end
    end

    # Once through them: paused jobs remain afterwards.
    def retry_all
      each_of_sidekiqs(&:retry)
      waiting.each_row { |row| Entry.new(self, row).retry }
    end

    def kill_all(**options)
      return super if Sidekiq::JobSet.method_defined?(:pop_each)

      each_of_sidekiqs(&:kill)
      waiting.each_row { |row| Entry.new(self, row).kill }
    end

    private

    def moment(score, whole)
      (score.to_f.clamp(0, Moment::LAST) * 1000).public_send(whole)
    end

    # Jobs in the sorted set. Unreadable ones stay there.
    def each_of_sidekiqs
      stays = 0
      loop do
        rows = Sidekiq.redis { |conn| Takeover.members(conn, name, stays) }
        return if rows.empty?

        entries = rows.map { |member, score| Sidekiq::SortedEntry.new(self, score, member) }
        readable, others = entries.partition { |entry| entry.item.is_a?(Hash) && entry.jid }
        stays += others.size
        readable.each { |entry| yield entry }
      end
    end

    def waiting
      @waiting ||= Waiting.named(name)
    end
  end
end
