<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

/** A job that a worker holds: after the lease has expired, another worker may hold it, and these commands do nothing. */
class Lease
{
    public function __construct(
        private Server $server,
        private string $key,
        private string $token,
        private string $id,
    ) {
    }

    public function settle(): void
    {
        $this->server->command('DEHYDRATOR.SETTLE', $this->key, $this->token, $this->id);
    }

    /** Gives the job back, to be done again after some milliseconds. */
    public function release(int $milliseconds): void
    {
        $this->server->command('DEHYDRATOR.RELEASE', $this->key, $milliseconds, $this->token, $this->id);
    }

    /** Lets the lease expire after some milliseconds from now. Returns whether this worker still holds the job. */
    public function renew(int $milliseconds): bool
    {
        return $this->server->command('DEHYDRATOR.RENEW', $this->key, $milliseconds, $this->token, $this->id) === [1];
    }

    public function id(): string
    {
        return $this->id;
    }
}
