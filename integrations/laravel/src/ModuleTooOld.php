<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use RuntimeException;

/** The server's module is older than this package needs. */
class ModuleTooOld extends RuntimeException
{
    public const NEEDED = '0.1.0';
}
