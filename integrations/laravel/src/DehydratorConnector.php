<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use Illuminate\Contracts\Redis\Factory;
use Illuminate\Queue\Connectors\ConnectorInterface;

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
            array_key_exists('retry_after', $config) ? $config['retry_after'] : 60,
            $config['block_for'] ?? null,
            (bool) ($config['after_commit'] ?? false),
        );
    }
}
