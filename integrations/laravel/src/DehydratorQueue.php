<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use DateInterval;
use DateTimeInterface;
use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Illuminate\Support\Carbon;
use Illuminate\Support\Str;

/** A connection: each of its queues is a dehydrator, `dehydrator:NAME`, from which workers lease jobs. */
class DehydratorQueue extends Queue implements QueueContract, ClearableQueue
{
    /** The lease without `retry_after`, in milliseconds: a hundred years. */
    private const ENDLESS = 100 * 365 * 86_400_000;

    /** How much longer than a job's own timeout its lease is, in seconds: until the worker has killed the job. */
    private const AFTER_TIMEOUT = 10;

    /** @var array<string, string> By key, the token of a poll whose reply has not arrived. */
    private array $tokens = [];

    /** @var ?array<string, list<string|int>> By key, what `bulk` pushes together. */
    private ?array $together = null;

    /**
     * @param ?int $retryAfter seconds until another worker gets the job of a dead one
     * @param ?int $blockFor seconds for which a worker waits in the server for a job
     */
    public function __construct(
        private Server $server,
        private string $default = 'default',
        private ?int $retryAfter = 60,
        private ?int $blockFor = null,
        bool $dispatchAfterCommit = false,
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
    }

    /** Returns the number of jobs, due or not, and including those that workers have. */
    public function size($queue = null): int
    {
        return (int) $this->server->command('DEHYDRATOR.LEN', $this->key($queue));
    }

    public function push($job, $data = '', $queue = null): mixed
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $this->name($queue), $data),
            $queue,
            null,
            fn ($payload, $queue) => $this->pushRaw($payload, $queue),
        );
    }

    public function later($delay, $job, $data = '', $queue = null): mixed
    {
        return $this->enqueueUsing(
            $job,
            $this->createPayload($job, $this->name($queue), $data),
            $queue,
            $delay,
            fn ($payload, $queue, $delay) => $this->put($payload, $queue, self::milliseconds($delay)),
        );
    }

    public function pushRaw($payload, $queue = null, array $options = []): string
    {
        return $this->put($payload, $queue, 0);
    }

    /** Pushes jobs, each with its own delay, by one command for each queue. */
    public function bulk($jobs, $data = '', $queue = null): void
    {
        $this->together = [];
        try {
            foreach ((array) $jobs as $job) {
                if (isset($job->delay)) {
                    $this->later($job->delay, $job, $data, $queue);
                } else {
                    $this->push($job, $data, $queue);
                }
            }
            $together = $this->together;
        } finally {
            $this->together = null;
        }
        foreach ($together as $key => $words) {
            $this->server->command('DEHYDRATOR.MPUSH', $key, ...$words);
        }
    }

    /** Leases the next job. Its lease is `retry_after`, or longer if the job may take longer. */
    public function pop($queue = null): ?DehydratorJob
    {
        $key = $this->key($queue);
        // If the reply is lost, the next poll has the same token, and gets the same job.
        $token = $this->tokens[$key] ??= Str::random(16);
        $lease = $this->retryAfter === null ? self::ENDLESS : $this->retryAfter * 1000;
        $block = $this->blockFor ? ['BLOCK', $this->blockFor * 1000] : [];
        $rows = $this->server->command('DEHYDRATOR.POLL', $key, 'COUNT', 1, 'LEASE', $lease, 'TOKEN', $token, ...$block);
        unset($this->tokens[$key]);
        if (! $rows) {
            return null;
        }
        [[$id, $payload, $attempts]] = $rows;
        $lease = new Lease($this->server, $key, $token, $id);
        $job = new DehydratorJob($this->container, $lease, $payload, $attempts, $this->connectionName, $this->name($queue));
        if ($this->retryAfter !== null && $job->timeout() >= $this->retryAfter) {
            $lease->renew(($job->timeout() + self::AFTER_TIMEOUT) * 1000);
        }

        return $job;
    }

    /** Deletes all jobs, and returns their number. */
    public function clear($queue): int
    {
        $size = $this->size($queue);
        $this->server->command('DEL', $this->key($queue));

        return $size;
    }

    protected function createPayloadArray($job, $queue, $data = ''): array
    {
        return ['id' => Str::random(32)] + parent::createPayloadArray($job, $queue, $data);
    }

    private function put(string $payload, ?string $queue, int $milliseconds): string
    {
        $key = $this->key($queue);
        $id = json_decode($payload, true)['id'] ?? Str::random(32);
        if ($this->together === null) {
            $this->server->command('DEHYDRATOR.PUSH', $key, $milliseconds, $payload, $id);
        } else {
            $this->together[$key] = [...$this->together[$key] ?? [], $milliseconds, $payload, $id];
        }

        return $id;
    }

    /** Returns a delay in milliseconds: not, as `secondsUntil`, in whole seconds. */
    public static function milliseconds(DateTimeInterface|DateInterval|int|float|string|null $delay): int
    {
        if ($delay instanceof DateInterval) {
            $delay = Carbon::now()->add($delay);
        }
        if ($delay instanceof DateTimeInterface) {
            return max(0, (int) $delay->format('Uv') - (int) Carbon::now()->format('Uv'));
        }

        return max(0, (int) round((float) $delay * 1000));
    }

    private function name(?string $queue): string
    {
        return $queue ?: $this->default;
    }

    private function key(?string $queue): string
    {
        return $this->server->key('dehydrator:'.$this->name($queue));
    }
}
