<?php

// Puts this driver in the place of Laravel's own, for Laravel's tests of it.

declare(strict_types=1);

namespace Illuminate\Queue;

use Dehydrator\Laravel\DehydratorJob;
use Dehydrator\Laravel\DehydratorQueue;
use Dehydrator\Laravel\Server;
use Illuminate\Contracts\Redis\Factory;
use Illuminate\Redis\Connections\Connection;

require dirname(__DIR__).'/bootstrap.php';
require_once 'Mockery/autoload.php';

class RedisQueue extends DehydratorQueue
{
    public function __construct(
        Factory $redis,
        string $default = 'default',
        ?string $connection = null,
        ?int $retryAfter = 60,
        ?int $blockFor = null,
        bool $dispatchAfterCommit = false,
    ) {
        $server = new Server($redis, $connection);
        parent::__construct($server, $default, $retryAfter ?? 60, $blockFor, $dispatchAfterCommit);
        $this->setConnectionName('redis');
        // What the tests count in Laravel's keys, for their queue `default`: what workers hold, and what waits.
        $count = function (string $key) use ($server): int {
            $info = array_column(array_chunk($server->command('DEHYDRATOR.INFO', $server->key('dehydrator:default')), 2), 1, 0);

            return match ($key) {
                'queues:default:reserved' => $info['given-out'],
                'queues:default:delayed' => $info['length'] - $info['given-out'] - $info['due'],
                'queues:default' => $info['due'],
                'queues:default:notify' => 0,
            };
        };
        Connection::macro('zcard', $count);
        Connection::macro('llen', $count);
    }
}

class_alias(DehydratorJob::class, Jobs\RedisJob::class);
