<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use DateInterval;
use DateTimeInterface;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;

/** A job that this worker holds. */
class DehydratorJob extends Job implements JobContract
{
    public function __construct(
        Container $container,
        private Lease $lease,
        private string $body,
        private int $attempts,
        string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    public function delete(): void
    {
        parent::delete();
        $this->lease->settle();
    }

    /** @param DateTimeInterface|DateInterval|int|float $delay from now, in seconds */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->lease->release(DehydratorQueue::milliseconds($delay));
    }

    /** Gives the job more time, in seconds from now. Returns whether this worker still holds it. */
    public function renew(int $seconds): bool
    {
        return $this->lease->renew($seconds * 1000);
    }

    /** Returns how many times the server has given the job out, this time included. */
    public function attempts(): int
    {
        return $this->attempts;
    }

    public function getJobId(): string
    {
        return $this->lease->id();
    }

    public function getRawBody(): string
    {
        return $this->body;
    }
}
