<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use Illuminate\Contracts\Redis\Factory;
use Illuminate\Queue\Connectors\ConnectorInterface;
use InvalidArgumentException;

class DehydratorConnector implements ConnectorInterface
{
    public function __construct(private Factory $redis)
    {
    }

    /** Takes the options of the driver `redis`. */
    public function connect(array $config): DehydratorQueue
    {
        return new DehydratorQueue(
            new Server($this->redis, $config['connection'] ?? null),
            $config['queue'] ?? 'default',
            $this->retryAfter($config),
            $config['block_for'] ?? null,
            (bool) ($config['after_commit'] ?? false),
        );
    }

    /** Without it, nobody would ever get the job of a worker that died. */
    private function retryAfter(array $config): int
    {
        $seconds = array_key_exists('retry_after', $config) ? $config['retry_after'] : 60;
        if (! is_numeric($seconds) || $seconds < 1) {
            throw new InvalidArgumentException('`retry_after` of a connection with the driver `dehydrator` is a number of seconds from 1 on.');
        }

        return (int) $seconds;
    }
}
