<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldBeUnique;

class UniqueNote extends Note implements ShouldBeUnique
{
    public function uniqueId(): string
    {
        return $this->name;
    }
}
