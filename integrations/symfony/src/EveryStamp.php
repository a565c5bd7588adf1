<?php

declare(strict_types=1);

namespace Dehydrator\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** Makes a message a schedule: the server sends it at each occurrence. With the same stamp and message again, nothing changes. */
class EveryStamp implements NonSendableStampInterface
{
    /** @param string|int $plan a cron of five fields, or a number of milliseconds */
    public function __construct(public readonly string $name, public readonly string|int $plan, public readonly ?string $zone = null)
    {
    }
}
