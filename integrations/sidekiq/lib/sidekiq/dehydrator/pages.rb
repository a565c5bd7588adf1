# frozen_string_literal: true

module Sidekiq::Dehydrator
  # `Sidekiq::Paginator`: a page of *Scheduled* or *Retries*, earliest first, or of a queue (`Reading`).
  module Pages
    # Classes that include the paginator have its methods already: they are replaced there.
    def self.install
      Sidekiq::Paginator.module_exec do
        alias_method :page_of_key, :page

        def page(key, pageidx = 1, page_size = 25, opts = nil)
          current = [pageidx.to_i, 1].max
          reverse = !!opts&.fetch(:reverse, false)
          if (waiting = Waiting.named(key))
            Pages.page(waiting, current, page_size, reverse)
          elsif Reliable.on? && key.start_with?("queue:")
            Reading.page(key.delete_prefix("queue:"), current, page_size, reverse)
          else
            page_of_key(key, pageidx, page_size, opts)
          end
        end
      end
    end

    # Sidekiq's page: its number, the total, and pairs of payload and time, in seconds.
    def self.page(waiting, current, page_size, reverse)
      own = Sidekiq.redis { |conn| conn.zcard(waiting.name) }
      total = own + waiting.size
      first = (current - 1) * page_size
      first = total - first - page_size if reverse
      size = page_size + [first, 0].min
      first = [first, 0].max
      pairs = size.positive? ? slice(waiting, own, first, size) : []
      [current, total, reverse ? pairs.reverse : pairs]
    end

    def self.slice(waiting, own, first, size)
      return pairs(waiting, waiting.in_order.lazy.drop(first).first(size)) if own.zero?

      both = Waiting.merge([waiting.in_order, leftovers(waiting.name)]) do |row|
        row.is_a?(Row) ? row.deadline / 1000.0 : row.last
      end
      both.lazy.drop(first).first(size).flat_map { |row| row.is_a?(Row) ? pairs(waiting, [row]) : [row] }
    end

    def self.pairs(waiting, rows)
      waiting.with_elements(rows).map { |row| [Entry.new(waiting, row).shown, row.deadline / 1000.0] }
    end

    # Jobs that are still in Sidekiq's sorted set.
    def self.leftovers(name)
      Enumerator.new do |out|
        (0..).step(Takeover::PAGE) do |start|
          rows = Sidekiq.redis { |conn| Takeover.members(conn, name, start) }
          rows.each { |row| out << row }
          break if rows.empty?
        end
      end
    end
    private_class_method :slice, :pairs, :leftovers
  end
end
