# frozen_string_literal: true

require "fugit"

module Sidekiq
  module Dehydrator
    # A periodic job. It waits in the server, under its name, as an element of three lines: the state, which changes
    # with each occurrence; the plan, which tells when it occurs; and the job. Moments are in unix ms.
    #
    #     {"next":1764147600000,"last":1764061200000,"late":3}
    #     {"cron":"0 9 * * 1-5 Europe/Berlin","source":"file"}
    #     {"args":[],"class":"Report","queue":"default"}
    #
    # The state is a Hash, the other two are texts.
    class Schedule < Struct.new(:name, :state, :plan, :job)
      STATE = %w[next last late missed paused gone].freeze

      NO_PART_OF_JOBS = %w[name klass cron status source namespace message].freeze

      # In ms. A process looks at a schedule after this time at the latest: `dehydrator.max-ttl` may refuse more.
      LONGEST_WAIT = 3_600_000

      # In ms. A schedule that is no more in the file is removed after this time.
      GONE_FOR = 86_400_000

      # In seconds.
      COUNTING = 1

      # Reads what a file of sidekiq-cron tells about a schedule. Raises ArgumentError if it is wrong.
      def self.build(name, fields, source)
        job = fields.except(*NO_PART_OF_JOBS)
        job.update("class" => (fields["class"] || fields["klass"]).to_s, "args" => Occurrence.arguments(fields["args"]))
        raise ArgumentError, "'class' must be set" if job["class"].empty?

        job["queue"] = Occurrence.queue(job)
        cron = parse(fields["cron"].to_s)
        # The same for all processes, whatever their zones are.
        zone = EtOrbi.determine_local_tzone.name unless cron.zone
        plan = { "cron" => cron.original, "source" => source, "zone" => zone }
        new(name, {}, Sidekiq.dump_json(plan.compact), Sidekiq.dump_json(job.compact.sort.to_h))
      end

      def self.decode(name, element)
        state, plan, job = element.dup.force_encoding(Encoding::UTF_8).split("\n", 3)
        new(name, Sidekiq.load_json(state), plan, job)
      end

      @crons = {}
      # Remembers them: parsing takes milliseconds.
      def self.parse(text)
        @crons.clear if @crons.size > 10_000
        cron = @crons[text] ||= Fugit.parse_cron(text) || Fugit.parse_nat(text) unless text.strip.empty?
        cron.is_a?(Fugit::Cron) ? cron : raise(ArgumentError, "'cron' is not a cron: #{text.inspect}")
      end

      def element
        known = STATE.to_h { |field| [field, state[field]] }
        [Sidekiq.dump_json(known.select { |_, value| value && value != 0 }), plan, job].join("\n")
      end

      # The moment at which a process has to look at it.
      def deadline(now)
        [gone_until || state["next"], now + LONGEST_WAIT].min
      end

      # The moment at which it is removed, if it is no more in the file.
      def gone_until
        state["gone"] && state["gone"] + GONE_FOR
      end

      # Returns the schedule in the place of an older one, or of nil.
      def succeed(old, now)
        same = old && old.cron_text == cron_text
        with(same ? old.state : { "next" => after(now), "paused" => old&.state&.fetch("paused", nil) }, "gone" => nil)
      end

      def pause
        with(state, "paused" => true)
      end

      # Skips what was due up to now, as the processes do during a pause.
      def resume(now)
        state["paused"] ? with(state, "paused" => nil, "next" => state["next"] > now ? state["next"] : after(now)) : self
      end

      # Returns the schedule after all occurrences that are due, or nil to remove it; and the one that gets a job, the
      # last of them, or nil.
      def step(now)
        return [(self if gone_until > now), nil] if gone_until
        return [self, nil] if state["next"] > now

        last, seen = due(now)
        moved = with(state, "next" => after([last, now].max))
        return [moved, nil] if state["paused"]

        missed = state["missed"].to_i + seen - 1
        [with(moved.state, "last" => last, "late" => now - last, "missed" => missed), last]
      end

      # What the plan tells.
      def told
        Sidekiq.load_json(plan)
      end

      def cron_text
        told.values_at("cron", "zone").compact.join(" ")
      end

      def with(state, changes)
        self.class.new(name, state.merge(changes), plan, job)
      end

      private

      # Returns the last occurrence that is due, and how many are. Counting stops after a while: it takes a millisecond
      # each, and the lease is short.
      def due(now)
        last, seen = state["next"], 1
        finish = ::Process.clock_gettime(::Process::CLOCK_MONOTONIC) + COUNTING
        while (following = after(last)) <= now
          return [[following, before(now)].max, seen + 1] if ::Process.clock_gettime(::Process::CLOCK_MONOTONIC) > finish

          last = following
          seen += 1
        end
        [last, seen]
      end

      def after(moment)
        cron.next_time(EtOrbi::EoTime.new(moment / 1000, "UTC")).to_i * 1000
      end

      # Includes the moment.
      def before(moment)
        cron.previous_time(EtOrbi::EoTime.new(moment / 1000 + 1, "UTC")).to_i * 1000
      end

      def cron
        @cron ||= self.class.parse(cron_text)
      end
    end
  end
end
