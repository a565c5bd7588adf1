<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Bus\Batchable;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Foundation\Bus\Dispatchable;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Support\Facades\Redis;

/** Notes that it was done, and when. */
class Note implements ShouldQueue
{
    use Batchable;
    use Dispatchable;
    use InteractsWithQueue;
    use Queueable;

    public function __construct(public string $name, public float $seconds = 0, public ?int $timeout = null)
    {
    }

    public function handle(): void
    {
        Redis::rpush('begun', $this->name);
        usleep((int) ($this->seconds * 1e6));
        Redis::rpush('done', json_encode([$this->name, microtime(true), $this->attempts()]));
    }
}
