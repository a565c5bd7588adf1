<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Dehydrator\Laravel\ModuleMissing;
use Dehydrator\Laravel\ModuleTooOld;
use Dehydrator\Laravel\QueueFull;
use Dehydrator\Laravel\Server;
use RuntimeException;

/** What all packages do alike: integrations/protocol. */
class ProtocolTest extends \PHPUnit\Framework\TestCase
{
    public function testErrorsHaveTheirNames(): void
    {
        $vectors = json_decode(file_get_contents(dirname(__DIR__, 2).'/protocol/vectors.json'), true);
        foreach ($vectors['errors'] as $reply => $name) {
            $class = ['QueueFull' => QueueFull::class, 'ModuleMissing' => ModuleMissing::class][$name] ?? RuntimeException::class;
            $this->assertSame($class, get_class(Server::exception($reply)), $reply);
        }
    }

    public function testAModuleIsMissingOrTooOldByItsVersion(): void
    {
        foreach (['' => ModuleMissing::class, '0.0.9' => ModuleTooOld::class, '0.1.0' => null, '0.10.0' => null, '1.0.0-rc.1' => null] as $version => $class) {
            $found = null;
            try {
                Server::verify($version === '' ? '' : "# dehydrator\r\ndehydrator_version:$version\r\n");
            } catch (RuntimeException $error) {
                $found = get_class($error);
            }
            $this->assertSame($class, $found, $version);
        }
    }
}
