<?php
// phpredis.

[, $mode, $port] = $argv;
parse_str(implode('&', array_slice($argv, 3)), $settings);
$timeout = (float) ($settings['timeout'] ?? 0);

if ($mode === 'cluster') {
    $client = new RedisCluster(null, ["127.0.0.1:$port"], 0, $timeout);
    if (isset($settings['replicas'])) {
        $client->setOption(RedisCluster::OPT_SLAVE_FAILOVER, RedisCluster::FAILOVER_DISTRIBUTE_SLAVES);
    }
} else {
    $client = new Redis();
    $client->connect('127.0.0.1', (int) $port);
    if ($timeout > 0) {
        $client->setOption(Redis::OPT_READ_TIMEOUT, $timeout);
    }
    if (($settings['resend'] ?? '') === 'off') {
        $client->setOption(Redis::OPT_MAX_RETRIES, 0);
    }
}
echo 'ready ', phpversion('redis'), "\n";
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', rtrim($line, "\n"));
    try {
        $client->clearLastError();
        $reply = $mode === 'cluster' ? $client->rawCommand($words[1], ...$words) : $client->rawCommand(...$words);
        $error = $client->getLastError();
        echo $error ? "error $error" : 'ok ' . json_encode($reply), "\n";
    } catch (Exception $error) {
        echo 'error ', get_class($error), ' ', strtr($error->getMessage(), "\n", ' '), "\n";
    }
}
