# frozen_string_literal: true

require "erb"
require "yaml"

module Sidekiq::Dehydrator
  # All periodic jobs: schedules of one dehydrator (DEHYDRATOR.EVERY). The server stores an element for each occurrence,
  # which `ScheduleThread` makes a job.
  module Schedules
    KEY = "dehydrator:schedules"

    # What fugit has in addition to five fields.
    NAMED = { "@hourly" => "0 * * * *", "@daily" => "0 0 * * *", "@midnight" => "0 0 * * *", "@weekly" => "0 0 * * 0",
              "@monthly" => "0 0 1 * *", "@yearly" => "0 0 1 1 *", "@annually" => "0 0 1 1 *" }.freeze

    # A schedule as the server tells of it. `job` is what its occurrences become; moments are in unix ms.
    Schedule = Struct.new(:name, :cron, :job, :next, :last, :late, :missed, :paused)

    @file = "config/schedule.yml"
    class << self
      # The file that a process loads when it starts.
      attr_accessor :file

      def load_file(path = file)
        load(YAML.safe_load(ERB.new(File.read(path)).result, permitted_classes: [Symbol], aliases: true) || {})
      end

      # Makes and changes schedules, like a file. Those that an earlier call had and this one lacks are removed, if they
      # have the same source. Returns the errors by name.
      def load(schedules, source = "file")
        schedules = schedules.to_h { |fields| [fields["name"] || fields[:name], fields] } if schedules.is_a?(Array)
        schedules = schedules.to_h.transform_keys(&:to_s)
        errors = schedules.to_h { |name, fields| [name, attempt { put(name, fields, source) }] }.compact
        all.each { |old| remove(old.name) if old.job["source"] == source && !schedules.key?(old.name) }
        errors
      end

      # Makes a schedule, or changes the one of this name. `fields` are those of the file.
      def put(name, fields, source = nil)
        raise ArgumentError, "its options are not a Hash" unless fields.is_a?(Hash)

        fields = fields.transform_keys(&:to_s)
        job = Occurrence.job(fields, source)
        plan, *zone = plan(name.to_s, fields["cron"].to_s.split)
        call("EVERY", plan, Sidekiq.dump_json(job), name, *zone)
        case fields["status"].to_s
        when "disabled" then pause(name)
        when "enabled" then resume(name)
        end
        find(name)
      end

      def all
        call("SCHEDULES").map { |told| schedule(told) }.sort_by(&:name)
      end

      def find(name)
        told = call("SCHEDULES", name).first
        told && schedule(told)
      end

      def pause(name)
        call("PAUSE", "SCHEDULE", name)
      end

      def resume(name)
        call("RESUME", "SCHEDULE", name)
      end

      def remove(name)
        call("UNSCHEDULE", name).positive?
      end

      # Pushes a job now, and leaves the schedule as it is. Returns the job's id, or nil.
      def run(name)
        found = find(name)
        found && Sidekiq::Client.push(Occurrence.item(found.job, name, (Moment.now * 1000).to_i))
      end

      private

      def call(command, *words)
        Sidekiq.redis do |conn|
          Errors.patient(conn) { conn.call("DEHYDRATOR.#{command}", KEY, *words.map(&:to_s)) }
        end
      rescue Errors::COMMAND => error
        raise error unless error.message.start_with?("ERR ")

        raise ArgumentError, error.message.delete_prefix("ERR ")
      end

      def schedule(told)
        told = Waiting.fields(told)
        cron = told.values_at("plan", "zone").compact.join(" ")
        job = Sidekiq.load_json(told["element"].dup.force_encoding(Encoding::UTF_8))
        name = told["name"].dup.force_encoding(Encoding::UTF_8)
        Schedule.new(name, cron, job, *told.values_at("next", "last", "late", "missed"), told["paused"] == 1)
      end

      # Returns the five fields, and the zone: at their end, or else that of this process, which warns. One field is a number
      # of milliseconds.
      def plan(name, words)
        words = NAMED[words.first].split + words.drop(1) if NAMED.key?(words.first)
        return [words.join(" ")] unless words.size > 4

        zone = words.pop if words.size == 6 && words.last.match?(/\A[[:alpha:]]/)
        zone ||= own_zone.tap do |own|
          Sidekiq.logger.warn { "#{name}: its cron has no zone, and is in #{own}, that of the process that loaded it last" }
        end
        [words.join(" "), "ZONE", zone]
      end

      def own_zone
        (Time.zone.tzinfo.name if Time.respond_to?(:zone) && Time.zone) || ENV["TZ"].to_s[/\A[A-Z].*/] || "UTC"
      end

      def attempt
        yield
        nil
      rescue ArgumentError => error
        error.message
      end
    end
  end
end
