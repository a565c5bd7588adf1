<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use RuntimeException;

/** The queue holds as many jobs as its limit allows, or the server has no memory left. */
class QueueFull extends RuntimeException
{
}
