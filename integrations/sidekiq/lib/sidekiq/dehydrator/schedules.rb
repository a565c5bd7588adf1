# frozen_string_literal: true

require "erb"
require "yaml"

module Sidekiq
  module Dehydrator
    # All periodic jobs, in one dehydrator. Each change is stored only if nobody else made one meanwhile.
    module Schedules
      KEY = "dehydrator:schedules"

      @file = "config/schedule.yml"
      class << self
        # The file that a process loads when it starts.
        attr_accessor :file

        def load_file(path = file)
          load(YAML.safe_load(ERB.new(File.read(path)).result, permitted_classes: [Symbol], aliases: true) || {})
        end

        # Makes and changes schedules, like a file. Those that an earlier call had and this one lacks do not occur any
        # more, if they have the same source. Returns the errors by name.
        def load(schedules, source = "file")
          schedules = schedules.to_h { |fields| [fields["name"] || fields[:name], fields] } if schedules.is_a?(Array)
          schedules = schedules.to_h.transform_keys(&:to_s)
          errors = schedules.to_h { |name, fields| [name, attempt { put(name, fields, source) }] }.compact
          all.each { |old| leave_out(old.name) if old.told["source"] == source && !schedules.key?(old.name) }
          errors
        end

        # Makes a schedule, or changes the one of this name. `fields` are those of the file.
        def put(name, fields, source = nil)
          raise ArgumentError, "its options are not a Hash" unless fields.is_a?(Hash)

          fields = fields.transform_keys(&:to_s)
          schedule = Schedule.build(name.to_s, fields, source)
          change(schedule.name) do |old, now|
            changed = schedule.succeed(old, now)
            case fields["status"].to_s
            when "disabled" then changed.pause
            when "enabled" then changed.resume(now)
            else changed
            end
          end
        end

        def all
          rows, from = [], "-"
          until from.nil?
            from, more = Sidekiq.redis { |conn| conn.call("DEHYDRATOR.RANGE", KEY, from, "+", "COUNT", 1000, "WITHELEMENTS") }
            rows.concat(more)
          end
          rows.map { |name, *, element| Schedule.decode(name, element) }.sort_by(&:name)
        end

        def find(name)
          element = look(name).last
          element && Schedule.decode(name, element)
        end

        def pause(name)
          change(name) { |old| old&.pause }
        end

        def resume(name)
          change(name) { |old, now| old&.resume(now) }
        end

        def remove(name)
          Sidekiq.redis { |conn| conn.call("DEHYDRATOR.REM", KEY, name) }.positive?
        end

        # Pushes a job now, and leaves the schedule as it is. Returns the job's id, or nil.
        def run(name)
          now, element = look(name)
          element && Sidekiq::Client.push(Occurrence.item(Schedule.decode(name, element), now))
        end

        # Returns the server's time in ms, and the element, or nil.
        def look(name)
          (seconds, microseconds), element = Sidekiq.redis { |conn| Errors.patient(conn) { Scripts::LOOK.call(conn, [KEY], [name]) } }
          [seconds.to_i * 1000 + microseconds.to_i / 1000, element]
        end

        # Stores a schedule, or removes it, if it is still `before`, and held under the token. Pushes a job with it.
        # Returns whether it did.
        def store(name, before, schedule, now, token: "", job: nil)
          queue = job ? ["queue:#{job["queue"]}"] : []
          words = [name, token, before.to_s, schedule ? schedule.element : "", schedule ? schedule.deadline(now) : 0]
          words += [job["queue"], Waiting.element(job, Moment.now)] if job
          Sidekiq.redis { |conn| Errors.patient(conn) { Scripts::STORE.call(conn, [KEY, QUEUES, *queue], words) } } == 1
        end

        private

        # Yields a schedule, or nil, and the server's time, and stores what is returned, unless it is nil.
        def change(name)
          loop do
            now, before = look(name)
            changed = yield(before && Schedule.decode(name, before), now)
            return changed if changed.nil? || changed.element == before || store(name, before, changed, now)
          end
        end

        # It stays for a day. So it goes on where it was if a process that has it still starts, with the files of an
        # older or a newer release.
        def leave_out(name)
          change(name) { |old, now| old&.with(old.state, "gone" => old.state["gone"] || now) }
        end

        def attempt
          yield
          nil
        rescue ArgumentError, RuntimeError => error
          error.message
        end
      end
    end
  end
end
