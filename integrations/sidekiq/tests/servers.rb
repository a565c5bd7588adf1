# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"

# Real servers with the module, for tests.
ROOT = File.expand_path("../../..", __dir__)
MODULE = ENV.fetch("DEHYDRATOR_MODULE", "#{ROOT}/target/release/libdehydrator.so")
SERVER = ENV.fetch("DEHYDRATOR_SERVER", "redis-server")

# Waits until the block returns a true value, and returns it.
def wait_until(seconds = 120)
  finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  until (found = yield)
    raise "it did not come true within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > finish

    sleep 0.02
  end
  found
end

# Below those that the system draws for clients: one of them would take the port of a server that is away for a moment.
PORTS = (12_000...32_000)

def free_port
  port = Random.rand(PORTS)
  TCPServer.open("127.0.0.1", port, &:close)
  port
rescue Errno::EADDRINUSE
  retry
end

# A server in a folder of its own, that can be killed and started again on its port.
class RealServer
  attr_reader :port, :folder, :pid

  def initialize(*options, with_module: true)
    @folder = Dir.mktmpdir("sidekiq-server-")
    @port = free_port
    @options = ["--port", port.to_s, "--dir", folder, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
                "--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", *options]
    @options += ["--loadmodule", MODULE] if with_module
    start
  end

  def url
    "redis://127.0.0.1:#{port}"
  end

  def start
    log = "#{folder}/log"
    @pid = spawn(SERVER, *@options, out: [log, "a"], err: [log, "a"])
    wait_until { answers? }
  end

  # One command, on a connection of its own. The reply's first line.
  def say(*words)
    TCPSocket.open("127.0.0.1", port) do |socket|
      socket.write("*#{words.size}\r\n#{words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" }.join}")
      reply = socket.gets("\r\n").to_s.chomp("\r\n")
      reply.start_with?("$") && reply != "$-1" ? socket.read(reply[1..].to_i) : reply
    end
  end

  def info(section, field)
    say("INFO", section)[/^#{field}:(\S+)/, 1]
  end

  def version
    info("server", "redis_version")
  end

  def kill
    Process.kill("KILL", pid)
    Process.wait(pid)
  end

  def restart
    kill
    start
  end

  def close
    kill
    FileUtils.rm_rf(folder)
  end

  private

  def answers?
    raise File.read("#{folder}/log")[/.{0,2000}\z/m] if Process.wait(pid, Process::WNOHANG)

    say("PING") == "+PONG"
  rescue SystemCallError
    false
  end
end
