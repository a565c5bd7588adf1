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
    /** How many jobs one command pushes, and of how many bytes, if there are several. */
    private const BATCH = 1000;

    private const BATCH_BYTES = 1 << 20;

    /** How much longer than a job's own timeout its lease is, in seconds: until the worker has killed the job. */
    private const AFTER_TIMEOUT = 10;

    /** @var array<string, string> By key, the token of a poll whose reply has not arrived. */
    private array $tokens = [];

    /** @var ?array<string, list<array{int, string, string}>> By key, the delays, payloads and ids of `bulk`. */
    private ?array $together = null;

    /**
     * @param int $retryAfter seconds until another worker gets the job of a dead one
     * @param ?int $blockFor seconds for which a worker waits in the server for a job
     */
    public function __construct(
        private Server $server,
        private string $default = 'default',
        private int $retryAfter = 60,
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

    /**
     * Pushes jobs, each with its own delay, up to a thousand or a megabyte by one command.
     *
     * @throws QueueFull if there is no room for all. Then none is pushed, unless it is due and a worker has begun it.
     */
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
        $pushed = [];
        foreach ($together as $key => $rows) {
            foreach (self::batches($rows) as $batch) {
                $replies = $this->server->command('DEHYDRATOR.MPUSH', $key, ...array_merge(...$batch));
                $pushed[$key] = [...$pushed[$key] ?? [], ...array_column(array_intersect_key($batch, array_filter($replies, fn ($reply) => $reply > 0)), 2)];
                if (in_array(-1, $replies, true)) {
                    foreach (array_filter($pushed) as $there => $ids) {
                        $this->server->command('DEHYDRATOR.REM', $there, ...$ids);
                    }
                    throw new QueueFull("FULL $key has no room for all jobs");
                }
            }
        }
    }

    /** @param list<array{int, string, string}> $rows */
    private static function batches(array $rows): iterable
    {
        for ($batch = [], $bytes = 0; $row = array_shift($rows);) {
            $bytes += strlen($row[1]);
            if ($batch && (count($batch) === self::BATCH || $bytes > self::BATCH_BYTES)) {
                yield $batch;
                [$batch, $bytes] = [[], strlen($row[1])];
            }
            $batch[] = $row;
        }
        if ($batch) {
            yield $batch;
        }
    }

    /**
     * Lets the server push a job at each occurrence of a plan: a cron of five fields, or a number of milliseconds.
     * With the same arguments again, nothing changes.
     *
     * @return bool whether something did
     */
    public function every(string $name, string|int $plan, $job, ?string $zone = null, $data = '', ?string $queue = null): bool
    {
        // The same at each deployment.
        $payload = self::named($this->createPayload($job, $this->name($queue), $data), $name);
        $zone = $zone === null ? [] : ['ZONE', $zone];

        return $this->server->command('DEHYDRATOR.EVERY', $this->key($queue), $plan, $payload, $name, ...$zone) === 1;
    }

    /** @return list<array<string, mixed>> what DEHYDRATOR.SCHEDULES replies: name, plan, next, last, missed … */
    public function schedules(?string $queue = null): array
    {
        $rows = $this->server->command('DEHYDRATOR.SCHEDULES', $this->key($queue));

        // A nil in an array is false for phpredis.
        return array_map(fn ($row) => array_map(fn ($it) => $it === false ? null : $it, array_column(array_chunk($row, 2), 1, 0)), $rows);
    }

    /** Removes schedules, and returns how many there were. */
    public function unschedule(array|string $names, ?string $queue = null): int
    {
        return $this->server->command('DEHYDRATOR.UNSCHEDULE', $this->key($queue), ...(array) $names);
    }

    /** Returns a payload with another id, and the UUID that belongs to that. */
    private static function named(string $payload, string $id): string
    {
        $uuid = vsprintf('%s%s-%s-%s-%s-%s%s%s', str_split(md5($id), 4));
        $told = array_diff_key(json_decode($payload, true), ['createdAt' => 0]);

        return json_encode(['id' => $id, 'uuid' => $uuid] + $told, JSON_UNESCAPED_UNICODE);
    }

    /** Leases the next job. Its lease is `retry_after`, or longer if the job may take longer. */
    public function pop($queue = null): ?DehydratorJob
    {
        $this->server->check();
        $key = $this->key($queue);
        // If the reply is lost, the next poll has the same token, and gets the same job.
        $token = $this->tokens[$key] ??= Str::random(16);
        $lease = $this->retryAfter * 1000;
        $block = $this->blockFor ? ['BLOCK', $this->blockFor * 1000] : [];
        $rows = $this->server->command('DEHYDRATOR.POLL', $key, 'COUNT', 1, 'LEASE', $lease, 'TOKEN', $token, ...$block);
        unset($this->tokens[$key]);
        if (! $rows) {
            return null;
        }
        [[$id, $payload, $attempts]] = $rows;
        if (preg_match('/@\d{13,}$/', $id)) {
            // An occurrence of a schedule: each has its own id, also in the table of failed jobs.
            $payload = self::named($payload, $id);
        }
        $lease = new Lease($this->server, $key, $token, $id);
        $job = new DehydratorJob($this->container, $lease, $payload, $attempts, $this->connectionName, $this->name($queue));
        if ($job->timeout() >= $this->retryAfter) {
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
            $this->together[$key][] = [$milliseconds, $payload, $id];
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
