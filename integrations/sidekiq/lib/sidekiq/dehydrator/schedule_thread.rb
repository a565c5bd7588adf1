# frozen_string_literal: true

module Sidekiq
  module Dehydrator
    # Sleeps in the server until a schedule is due, pushes its job and moves it on, in one transaction. Each of
    # Sidekiq's processes has one of these threads.
    class ScheduleThread
      # In seconds. Sidekiq's threads wait as long for a job.
      BLOCK = 2

      # In ms. An occurrence is late by this if the process is killed between the two commands.
      LEASE = 5000

      def self.install(config)
        config.on(:startup) do
          load_file
          @thread = new
          @thread.start
        end
        config.on(:quiet) { @thread&.quiet }
        config.on(:shutdown) { @thread&.stop }
      end

      def self.load_file
        file = Schedules.file.to_s
        file = file.sub(/\.yml\z/, ".yaml") unless File.exist?(file)
        return unless File.exist?(file)
        return Sidekiq.logger.warn { "#{file} is left to sidekiq-cron" } if defined?(::Sidekiq::Cron::Job)

        Schedules.load_file(file).each { |name, error| Sidekiq.logger.error { "#{file}: #{name}: #{error}" } }
      end
      private_class_method :load_file

      def initialize
        @done = false
        @connection = OwnConnection.new
      end

      def start
        @thread = Thread.new { run }
      end

      def quiet
        @done = true
      end

      def stop
        quiet
        @thread.join(BLOCK + 1)
      end

      # Waits until a schedule is due, though not forever, and serves it. Returns false if that failed.
      def serve
        @token ||= SecureRandom.hex(12)
        row = poll
        token, @token = @token, nil
        answer(row[0], row[1], token) if row
        true
      rescue StandardError => error
        Sidekiq.logger.error { "periodic jobs: #{error.class}: #{error.message}" }
        @connection.close
        false
      end

      private

      def run
        serve || sleep(1) until @done
      ensure
        @connection.close
      end

      # A lost reply comes again, under the same token.
      def poll
        words = ["DEHYDRATOR.POLL", Schedules::KEY, "COUNT", 1, "BLOCK", BLOCK * 1000, "LEASE", LEASE, "TOKEN", @token]
        @connection.blocking_call(2 * BLOCK, *words)&.first
      end

      def answer(name, element, token)
        now, = Schedules.look(name)
        schedule = Schedule.decode(name, element)
        moved, moment = schedule.step(now)
        job = moment && Occurrence.payload(schedule, moment)
        Schedules.store(name, element, moved, now, token: token, job: job)
      end
    end
  end
end
