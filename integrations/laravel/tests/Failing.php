<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use RuntimeException;

/** Fails until the key `app_mended` exists. */
class Failing extends Note
{
    public function handle(): void
    {
        if (! \Illuminate\Support\Facades\Redis::exists('mended')) {
            throw new RuntimeException('not yet');
        }
        parent::handle();
    }
}
