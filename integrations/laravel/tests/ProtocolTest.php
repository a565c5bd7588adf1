<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Dehydrator\Laravel\QueueFull;
use Dehydrator\Laravel\Server;

/** What all packages do alike: integrations/protocol. */
class ProtocolTest extends \PHPUnit\Framework\TestCase
{
    public function testErrorsHaveTheirNames(): void
    {
        $vectors = json_decode(file_get_contents(dirname(__DIR__, 2).'/protocol/vectors.json'), true);
        foreach ($vectors['errors'] as $reply => $name) {
            $this->assertSame($name === 'QueueFull', Server::exception($reply) instanceof QueueFull, $reply);
        }
    }
}
