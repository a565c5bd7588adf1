# redis-rb, in the version that Ruby finds. For probes in general, see tests/clients/probe.rs.

require "redis"

mode, port, *settings = ARGV
settings = settings.to_h { |setting| setting.split("=", 2) }
$stdout.sync = true

options = {}
options[:read_timeout] = settings["timeout"].to_f if settings["timeout"]
options[:reconnect_attempts] = 0 if settings["resend"] == "off"
options[:protocol] = settings["protocol"].to_i if settings["protocol"] && Redis::VERSION >= "5"

if mode == "cluster"
  options[:replica] = true if settings["replicas"]
  if Redis::VERSION >= "5"
    require "redis-clustering"
    client = Redis::Cluster.new(nodes: ["redis://127.0.0.1:#{port}"], **options)
  else
    client = Redis.new(cluster: ["redis://127.0.0.1:#{port}"], **options)
  end
else
  client = Redis.new(host: "127.0.0.1", port: port.to_i, **options)
end
puts "ready #{Redis::VERSION}"
while (line = $stdin.gets)
  words = line.split
  words[0] = words[0].downcase if settings["route"] == "lower"
  begin
    puts "ok #{client.call(*words).inspect}"
  rescue StandardError => error
    puts "error #{error.class} #{error.message.tr("\n", " ")}"
  end
end
