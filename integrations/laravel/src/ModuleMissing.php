<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use RuntimeException;

/** The server has not loaded the module. */
class ModuleMissing extends RuntimeException
{
}
