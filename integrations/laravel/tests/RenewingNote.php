<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

/** Renews its lease until its time is over. */
class RenewingNote extends Note
{
    public function handle(): void
    {
        for ($end = microtime(true) + $this->seconds; microtime(true) < $end; usleep(200_000)) {
            $this->job->renew(5);
        }
        $this->seconds = 0;
        parent::handle();
    }
}
