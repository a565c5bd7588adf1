# frozen_string_literal: true

module Sidekiq::Dehydrator
  # The job of a schedule, as it is pushed.
  module Occurrence
    # A client that returns the payloads instead of pushing them: they have passed the client middleware.
    class Client < Sidekiq::Client
      def payload(item)
        @payload = nil
        push(item)
        @payload
      end

      private

      def raw_push(payloads)
        @payload = payloads.first
      end
    end

    # The options of a schedule that are not options of Sidekiq's jobs.
    OURS = %w[active_job date_as_argument symbolize_args queue_name_prefix queue_name_delimiter source].freeze

    NO_PART_OF_JOBS = %w[name klass cron status namespace message].freeze

    # Returns what is stored of the fields of a file of sidekiq-cron. Raises ArgumentError if they are wrong.
    def self.job(fields, source)
      job = fields.except(*NO_PART_OF_JOBS).merge("class" => (fields["class"] || fields["klass"]).to_s, "source" => source,
                                                  "args" => arguments(fields["args"]))
      raise ArgumentError, "'class' must be set" if job["class"].empty?
      raise ArgumentError, "'cron' must be set" if fields["cron"].to_s.strip.empty?

      job.merge("queue" => queue(job)).compact.sort.to_h
    end

    # Returns the payload of the job for a moment; nil if a client middleware stops it.
    def self.payload(job, name, moment)
      Client.new.payload(item(job, name, moment))
    end

    # Returns the commands that push a payload.
    def self.pushing(conn, payload)
      queue, at = payload["queue"], Moment.now
      element = Waiting.element(payload, at)
      return [["SADD", QUEUES, queue], ["DEHYDRATOR.MPUSH", Queues.key(queue), 0, element, payload["jid"], "NX"]] if Reliable.on?

      # In a transaction, it would be too late to find out.
      list = "queue:#{queue}"
      raise Errors::COMMAND, "WRONGTYPE #{list} is no list" unless %w[none list].include?(conn.call("TYPE", list))

      [["SADD", QUEUES, queue], ["LPUSH", list, element]]
    end

    # Returns what Sidekiq's client takes.
    def self.item(job, name, moment)
      args = job["args"]
      args += [moment / 1000.0] if true?(job["date_as_argument"])
      known = constant(job["class"])
      item = job.except(*OURS).merge("args" => args, "jid" => jid(name, moment))
      return item.merge(active_job(job, known, args)) if true?(job["active_job"]) || active_job?(known)

      item.merge("class" => known.respond_to?(:get_sidekiq_options) ? known : job["class"])
    end

    # It is part of paths on Sidekiq's page.
    def self.jid(name, moment)
      "#{name.gsub(/[^[:alnum:]_.:-]/, "_")}@#{moment}"
    end

    # Returns the queue of a schedule's jobs. It is stored with the schedule: a process that does not know the class yet
    # may push its jobs.
    def self.queue(fields)
      name, queue = fields.values_at("class", "queue")
      known = constant(name)
      if active_job?(known)
        own = known.queue_name
        queue ? known.queue_name_from_part(queue) : (own unless own.is_a?(Proc))
      elsif true?(fields["active_job"])
        [fields["queue_name_prefix"], queue || "default"].compact.join(fields["queue_name_delimiter"] || "_")
      else
        (queue || (known.get_sidekiq_options["queue"] if known.respond_to?(:get_sidekiq_options)) || "default").to_s
      end
    end

    def self.arguments(args)
      args = Sidekiq.load_json(args) if args.is_a?(String)
      args.is_a?(Hash) ? [args] : Array(args)
    rescue JSON::ParserError
      [args]
    end

    def self.active_job?(known)
      defined?(::ActiveJob::Base) && known.is_a?(Class) && known < ::ActiveJob::Base
    end

    # As Active Job's adapter pushes it, without its callbacks.
    def self.active_job(job, known, args)
      wrapper = %w[Sidekiq::ActiveJob::Wrapper ActiveJob::QueueAdapters::SidekiqAdapter::JobWrapper]
      queue = job["queue"] || "default"
      data = { "job_class" => job["class"], "job_id" => SecureRandom.uuid, "queue_name" => queue, "arguments" => args }
      if active_job?(known)
        args = JSON.parse(JSON.generate(args), symbolize_names: true) if true?(job["symbolize_args"])
        active = known.new(*args)
        active.queue_name = queue if job["queue"]
        data, queue = active.serialize, active.queue_name
      end
      { "class" => wrapper.filter_map { |name| constant(name) }.first || wrapper.last, "wrapped" => known || job["class"],
        "queue" => queue, "args" => [data] }
    end

    def self.constant(name)
      Object.const_get(name)
    rescue NameError, LoadError
      nil
    end

    def self.true?(value)
      /\A(true|t|yes|y|1)\z/i.match?(value.to_s)
    end
    private_class_method :active_job, :active_job?, :constant, :true?
  end
end
