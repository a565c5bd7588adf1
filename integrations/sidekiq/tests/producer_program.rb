# frozen_string_literal: true

require_relative "jobs"

# Pushes jobs over a while, in turns at once and for later. One whose push fails is pushed again, as the same job.
#
# usage: producer_program.rb jobs seconds
count, seconds = ARGV.map { |word| Integer(word) }
random = Random.new(17)
start = Time.now.to_f
count.times do |number|
  wait = start + seconds * number.fdiv(count) - Time.now.to_f
  sleep(wait) if wait.positive?
  delay = random.rand(0.0..seconds / 2.0)
  begin
    job = Traced.set("jid" => format("%024x", number))
    now = Time.now.to_f
    number.even? ? job.perform_async(number, now, 0.03) : job.perform_in(delay, number, now + delay, 0.03)
  rescue StandardError => error
    Traced.write("again", number, error.class)
    sleep 0.1
    retry
  end
end
