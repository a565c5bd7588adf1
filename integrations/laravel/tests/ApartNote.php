<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Queue\Middleware\WithoutOverlapping;

class ApartNote extends Note
{
    public function middleware(): array
    {
        return [(new WithoutOverlapping('one'))->releaseAfter(1)];
    }
}
