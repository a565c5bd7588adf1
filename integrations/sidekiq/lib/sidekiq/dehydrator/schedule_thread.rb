# frozen_string_literal: true

module Sidekiq::Dehydrator
  # Sleeps in the server until a schedule has occurred, and makes the occurrence a job, in one transaction. Each of
  # Sidekiq's processes has one of these threads.
  class ScheduleThread < Sleeper
    # In ms. An occurrence is late by this if the process is killed meanwhile.
    LEASE = 5000

    def self.install(config)
      config.on(:startup) do
        load_file
        @thread = new
        @thread.start
      end
      config.on(:quiet) { @thread&.quiet }
      config.on(:shutdown) { stop([@thread].compact) }
    end

    def self.load_file
      file = Schedules.file.to_s
      file = file.sub(/\.yml\z/, ".yaml") unless File.exist?(file)
      return unless File.exist?(file)
      return Sidekiq.logger.warn { "#{file} is left to sidekiq-cron" } if defined?(::Sidekiq::Cron::Job)

      Schedules.load_file(file).each { |name, error| Sidekiq.logger.error { "#{file}: #{name}: #{error}" } }
    end
    private_class_method :load_file

    private

    def name
      "periodic jobs"
    end

    def once
      @token ||= SecureRandom.hex(12)
      row = poll
      @token = nil
      answer(*row) if row
    end

    # A lost reply comes again, under the same token.
    def poll
      words = ["DEHYDRATOR.POLL", Schedules::KEY, "COUNT", 1, "BLOCK", BLOCK * 1000, "LEASE", LEASE, "TOKEN", @token]
      @connection.blocking_call(2 * BLOCK, *words)&.first
    end

    # If the lease is over, another process may have the occurrence: then it was delivered once more.
    def answer(id, element, deliveries, token)
      name, _, moment = id.dup.force_encoding(Encoding::UTF_8).rpartition("@")
      job = Occurrence.payload(Sidekiq.load_json(element.dup.force_encoding(Encoding::UTF_8)), name, moment.to_i)
      Sidekiq.redis do |conn|
        commands = job ? Occurrence.pushing(conn, job) : []
        Atomic.watching(conn, Schedules::KEY) do
          held = conn.call("DEHYDRATOR.LOOK", Schedules::KEY, id, "FULL")&.then { |told| Waiting.fields(told) }
          [*commands, ["DEHYDRATOR.SETTLE", Schedules::KEY, token, id]] if held && held["deliveries"] == deliveries
        end&.then { |replies| Atomic.checked(replies) }
      end
    end
  end
end
