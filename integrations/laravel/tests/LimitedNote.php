<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Queue\Middleware\RateLimited;

class LimitedNote extends Note
{
    public function middleware(): array
    {
        return [new RateLimited('notes')];
    }
}
