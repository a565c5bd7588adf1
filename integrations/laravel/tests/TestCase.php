<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Dehydrator\Laravel\DehydratorQueue;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Foundation\Application as Foundation;
use PHPUnit\Framework\TestCase as Base;

/** A test with a server, and an application whose queues are in it. */
abstract class TestCase extends Base
{
    protected RealServer $server;

    protected Foundation $app;

    /** @var list<resource> */
    private array $programs = [];

    protected function setUp(): void
    {
        $this->server = new RealServer();
        $this->app = $this->application('phpredis');
    }

    protected function tearDown(): void
    {
        foreach ($this->programs as $program) {
            if (is_resource($program)) {
                $this->kill($program);
            }
        }
        $this->server->close();
    }

    protected function application(string $client): Foundation
    {
        foreach ($this->environment(['REDIS_CLIENT' => $client]) as $name => $value) {
            putenv("$name=$value");
        }
        $app = Application::make($this->server->folder.'/app');
        $app->make(Kernel::class)->bootstrap();

        return $app;
    }

    /** @return array<string, string> */
    private function environment(array $more): array
    {
        return ['APP_FOLDER' => $this->server->folder.'/app', 'REDIS_PORT' => (string) $this->server->port] + $more;
    }

    protected function queue(): DehydratorQueue
    {
        return $this->app['queue']->connection();
    }

    /** Starts `artisan` with these words. Returns the process. */
    protected function artisan(array $words, array $environment = [])
    {
        $log = ['file', $this->server->folder.'/artisan.log', 'a'];
        $words = [PHP_BINARY, __DIR__.'/app/artisan', ...$words];
        $program = proc_open($words, [1 => $log, 2 => $log], $pipes, null, $this->environment($environment) + getenv());

        return $this->programs[] = $program;
    }

    protected function kill($program): void
    {
        proc_terminate($program, SIGKILL);
        proc_close($program);
    }

    /** Asks a worker to stop. Returns when it has stopped. */
    protected function stop($program): void
    {
        proc_terminate($program, SIGTERM);
        RealServer::waitUntil(fn () => ! proc_get_status($program)['running'], 'the worker stops');
        proc_close($program);
    }

    /** @return list<array{string, float, int}> the name of each job that was done, when, and its attempts */
    protected function done(): array
    {
        return array_map(fn ($line) => json_decode($line, true), $this->server->client->lRange('app_done', 0, -1));
    }

    protected function waitForDone(int $count): array
    {
        return RealServer::waitUntil(fn () => count($done = $this->done()) >= $count ? $done : null, "$count jobs are done");
    }
}
