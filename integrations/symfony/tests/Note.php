<?php

declare(strict_types=1);

namespace Dehydrator\Messenger\Tests;

class Note
{
    public function __construct(public string $name, public float $seconds = 0, public int $failures = 0)
    {
    }
}
