# frozen_string_literal: true

require_relative "helper"

# Processes, and the server, killed while jobs come due.
class KilledTest < DehydratorTest
  # Over so many seconds they come due.
  SPREAD = QUICK ? 2.0 : 20.0

  def put_off(count, after: QUICK ? 1.5 : 4.0)
    start = Time.now.to_f + after
    (0...count).each_slice(1000) do |numbers|
      moments = numbers.map { |number| start + number * SPREAD / count }
      Sidekiq::Client.push_bulk("class" => Note, "args" => numbers.zip(moments), "at" => moments)
    end
    start + SPREAD
  end

  # In the list, whether anybody has begun to work or not.
  def listed
    ask("LRANGE", "queue:default", 0, -1).map { |job| Sidekiq.load_json(job)["args"][0] }.sort
  end

  # It is killed in the middle: that many of the jobs have come by then.
  def when_came(share)
    wait_until { queue.size >= MANY * share }
  end

  def test_each_comes_once_when_the_server_is_killed
    server = RealServer.new
    use(server)
    put_off(MANY)
    [0.2, 0.5, 0.8].each do |share|
      when_came(share)
      server.restart
      use(server)
    end
    wait_until { queue.size >= MANY }
    assert_equal (0...MANY).to_a, listed
    assert_equal 0, scheduled.size
  ensure
    server&.close
  end

  def test_each_comes_once_when_the_server_fails_over
    first = RealServer.new("--appendfsync", "no")
    second = RealServer.new("--appendfsync", "no", "--replicaof", "127.0.0.1 #{first.port}")
    wait_until { second.say("INFO", "replication").include?("master_link_status:up") }
    use(first)
    put_off(MANY)
    servers = [first, second]
    [0.3, 0.6].each do |share|
      when_came(share)
      assert_equal "+OK", servers[0].say("FAILOVER")
      wait_until { servers[1].say("ROLE").start_with?("*3") && servers[1].say("INFO", "replication").include?("role:master") }
      servers.reverse!
      use(servers[0])
    end
    wait_until { queue.size >= MANY }
    assert_equal (0...MANY).to_a, listed
  ensure
    first&.close
    second&.close
  end

  # Sidekiq's poller would lose jobs between taking and pushing: here no job can be lost.
  def test_each_runs_once_when_processes_are_killed_that_take_nothing_from_the_queue
    sidekiq
    wait_until { Sidekiq::ProcessSet.new(false).size == 1 }
    finish = put_off(MANY)
    random = Random.new(11)
    while Time.now.to_f < finish
      other = sidekiq(queue: "other", poll: 0.05)
      sleep random.rand(1.0..2.5)
      other.kill
      @processes.delete(other)
    end
    wait_until { done(@server).size >= MANY }
    assert_equal (0...MANY).to_a, done(@server).map(&:first).sort
    assert_operator done(@server).map(&:last).min, :>=, -0.002
  end

  # The jobs of a killed worker are lost, as always with Sidekiq. All others run once.
  def test_none_runs_twice_and_only_what_was_in_hand_is_lost_when_workers_are_killed
    threads = 5
    workers = Array.new(2) { sidekiq(threads: threads) }
    wait_until { Sidekiq::ProcessSet.new(false).size == 2 }
    finish = put_off(MANY)
    random = Random.new(13)
    kills = 0
    wait_until { done(@server).size.positive? }
    loop do
      sleep random.rand(0.5..1.5)
      worker = workers.shift
      worker.kill
      @processes.delete(worker)
      kills += 1
      workers << sidekiq(threads: threads)
      break if Time.now.to_f > finish
    end
    wait_until { scheduled.size.zero? && queue.size.zero? }
    # They finish their current jobs.
    workers.each(&:stop)
    @processes.clear
    numbers = done(@server).map(&:first)
    assert_equal numbers.uniq.size, numbers.size
    assert_operator MANY - numbers.size, :<=, kills * threads
  end
end
