# frozen_string_literal: true

module Sidekiq::Dehydrator
  # `reliable!`: Sidekiq's queues are dehydrators, from which workers lease jobs.
  module Reliable
    # `lease`: in seconds, how soon another worker gets the jobs of a killed one. `kills`: after how many a job is dead.
    # `queues`: limits, by name of queue.
    Settings = Struct.new(:lease, :kills, :queues, keyword_init: true)

    @fetchers = []
    class << self
      attr_reader :settings, :fetchers

      def on?
        !@settings.nil?
      end

      def install(**options)
        first = !on?
        @settings = Settings.new(**options)
        return unless first

        Sidekiq::Queue.prepend(Reading::Queue)
        Sidekiq::JobRecord.prepend(Reading::JobRecord)
        Sidekiq::Stats.prepend(Reading::Stats)
        Sidekiq::Stats::Queues.prepend(Reading::Lengths) if defined?(Sidekiq::Stats::Queues)
        Unique.install
        Sidekiq.configure_server { |config| serve(config) }
      end

      # The names of all queues of this process.
      def queues(config)
        names = config.respond_to?(:capsules) ? config.capsules.values.flat_map(&:queues) : Sidekiq.options[:queues]
        names.uniq
      end

      private

      # Sidekiq's setting for a replacement of BRPOP. In version 6 it is an object, which has to know the queues.
      def serve(config)
        config[:fetch_class] = Fetcher if config.respond_to?(:capsules)
        config.on(:startup) do
          Sidekiq.options[:fetch] = Fetcher.new(Sidekiq.options) unless config.respond_to?(:capsules)
          names = queues(config)
          Queues.prepare(names)
          @lists = names.map { |name| ListThread.new(name).tap(&:start) }
        end
        config.on(:quiet) { fetchers.each(&:quiet) }
        config.on(:shutdown) do
          ListThread.stop(@lists || [])
          fetchers.each(&:finish)
        end
      end
    end
  end
end
