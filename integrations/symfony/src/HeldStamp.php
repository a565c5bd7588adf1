<?php

declare(strict_types=1);

namespace Dehydrator\Messenger;

use Symfony\Component\Messenger\Stamp\NonSendableStampInterface;

/** The token of a message that this worker holds. */
class HeldStamp implements NonSendableStampInterface
{
    public function __construct(public readonly string $token)
    {
    }
}
