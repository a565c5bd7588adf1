# frozen_string_literal: true

require "socket"
require_relative "servers"

# A constant address for changing primaries, like that of a name or a proxy.
class Address
  attr_reader :port

  def initialize(target)
    @target = target
    @listening = TCPServer.new("127.0.0.1", 0)
    @port = @listening.addr[1]
    Thread.new { accept }
  end

  # Connections that are open lead where they led.
  def lead_to(target)
    @target = target
  end

  def url
    "redis://127.0.0.1:#{port}"
  end

  def close
    @listening.close
  end

  private

  def accept
    loop do
      client = @listening.accept
      server = TCPSocket.new("127.0.0.1", @target.port)
      [[client, server], [server, client]].each { |ends| Thread.new { carry(*ends) } }
    rescue Errno::ECONNREFUSED, Errno::ECONNRESET
      client.close
    end
  rescue IOError, Errno::EBADF
    # It was closed.
  end

  def carry(source, sink)
    IO.copy_stream(source, sink)
  rescue SystemCallError, IOError
    # One of them is gone, and then the other one goes.
  ensure
    [source, sink].each(&:close)
  end
end

# A primary and its replica, behind one address.
class Pair
  # `folder`: of the records of jobs.
  attr_reader :address, :primary, :folder

  def initialize(*options)
    @primary = RealServer.new(*options)
    @folder = @primary.folder
    @replica = RealServer.new(*options, "--replicaof", "127.0.0.1 #{@primary.port}")
    @address = Address.new(@primary)
    wait_for_replica
  end

  def url
    address.url
  end

  # Kills the primary; it is away for a moment.
  def restart
    primary.kill
    sleep 0.5
    primary.start
    wait_for_replica
  end

  # The address follows a moment later: until then, clients ask one that is a replica by now.
  def fail_over
    wait_until { primary.say("FAILOVER", "TO", "127.0.0.1", @replica.port, "TIMEOUT", 20_000) == "+OK" }
    wait_until { @replica.say("INFO", "replication").include?("role:master") }
    sleep 0.3
    @primary, @replica = @replica, @primary
    address.lead_to(primary)
    wait_for_replica
  end

  def close
    address.close
    [primary, @replica].each(&:close)
  end

  private

  def wait_for_replica
    wait_until { @replica.say("INFO", "replication").include?("master_link_status:up") }
  end
end
