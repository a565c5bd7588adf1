<?php
// A worker with phpredis and pcntl. README.md describes it. Replace work().
declare(strict_types=1);

$url = parse_url(getenv('REDIS_URL') ?: 'redis://127.0.0.1:6379');
$queue = getenv('QUEUE') ?: '{jobs}';
[$blockMs, $leaseMs] = [(int) (getenv('BLOCK_MS') ?: 5000), (int) (getenv('LEASE_MS') ?: 60000)];
[$retryMs, $most] = [(int) (getenv('RETRY_MS') ?: 1000), (int) (getenv('DELIVERIES') ?: 5)];
[$server, $store, $stopping] = [null, null, false];

function work(string $id, string $job, int $deliveries): void
{
    global $store, $queue;
    [$word, $number] = explode(' ', $job) + [1 => '0'];
    $until = microtime(true) + ($word === 'slow' ? $number / 1000 : 0);
    while (microtime(true) < $until) {
        usleep(10_000); // The signal that renews the lease would interrupt a longer sleep.
    }
    if ($word === 'fail' && $deliveries <= $number) {
        throw new RuntimeException('it was to fail');
    }
    ask($store, 'SADD', "$queue:done", "$id $deliveries " . (int) (microtime(true) * 1000));
}

function connect(): Redis
{
    global $url, $blockMs;
    $redis = new Redis();
    $redis->connect($url['host'], $url['port'] ?? 6379, 5, null, 0, $blockMs / 1000 + 5);
    isset($url['pass']) && $redis->auth(array_filter([$url['user'] ?? '', $url['pass']]));
    return $redis;
}

function ask(?Redis &$redis, string|int ...$command): mixed
{
    global $stopping;
    for ($pause = 100_000; ; $pause = min(2 * $pause, 2_000_000)) {
        try {
            $redis ??= connect();
            $reply = $redis->rawCommand(...$command);
            // Temporary errors, such as LOADING and BUSY, are RedisException, and so are broken connections.
            return $redis->getLastError() === null ? $reply : throw new LogicException($redis->getLastError());
        } catch (RedisException $error) {
            pcntl_signal_dispatch();
            if ($stopping && $command[0] === 'DEHYDRATOR.POLL') {
                return [];
            }
            echo "$command[0] again: {$error->getMessage()}\n";
            $redis = null;
            usleep($pause);
        }
    }
}

pcntl_async_signals(true);
foreach ([SIGTERM, SIGINT] as $signal) {
    pcntl_signal($signal, function () use (&$stopping) { $stopping = true; });
}
$renewal = max(1, intdiv($leaseMs, 3000));
ask($server, 'DEHYDRATOR.ONDUE', $queue, 'HOLD', 'DELIVERIES', $most, 'STREAM', "$queue:dead");
$token = bin2hex(random_bytes(16));
while (!$stopping) {
    $lease = ['COUNT', 1, 'BLOCK', $blockMs, 'LEASE', $leaseMs, 'TOKEN', $token];
    foreach (ask($server, 'DEHYDRATOR.POLL', $queue, ...$lease) ?: [] as [$id, $job, $deliveries]) {
        pcntl_signal(SIGALRM, function () use (&$server, &$working, $queue, $leaseMs, $token, $id, $renewal) {
            if (!$working) {
                return; // The signal came just before the alarm was turned off.
            }
            [$held] = ask($server, 'DEHYDRATOR.RENEW', $queue, $leaseMs, $token, $id);
            $held ? pcntl_alarm($renewal) : throw new RuntimeException('the lease is lost');
        });
        $working = true;
        pcntl_alarm($renewal);
        try {
            work($id, $job, $deliveries);
            $working = false;
            $end = ['DEHYDRATOR.SETTLE', $queue];
        } catch (Exception $error) {
            $working = false;
            echo "$id failed: {$error->getMessage()}\n";
            $end = ['DEHYDRATOR.RELEASE', $queue, $retryMs * 2 ** ($deliveries - 1)];
        }
        pcntl_alarm(0);
        ask($server, ...$end, ...[$token, $id]);
        // A new token only after a job: phpredis can mistake a reply that broke off for an empty one.
        $token = bin2hex(random_bytes(16));
    }
}
