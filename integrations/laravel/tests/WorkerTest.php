<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

/** `artisan queue:work`, as a program. */
class WorkerTest extends TestCase
{
    private const WORK = ['queue:work', '--sleep=0', '--tries=3'];

    public function testDelayedJobsAreDoneOnceAndNoneEarly(): void
    {
        $worker = $this->artisan(self::WORK);
        $due = [];
        foreach (range(0, 19) as $n) {
            $due["$n"] = microtime(true) + 1 + $n / 20;
            $this->app['queue']->later(1 + $n / 20, new Note("$n"));
        }
        $done = $this->waitForDone(20);
        $this->stop($worker);
        $this->assertSame(array_map('strval', range(0, 19)), array_column($this->done(), 0));
        foreach ($done as [$name, $at]) {
            $this->assertGreaterThan($due[$name] - 0.002, $at);
        }
        $this->assertSame(0, $this->queue()->size());
    }

    public function testTheJobOfAKilledWorkerIsDoneByAnother(): void
    {
        $settings = ['RETRY_AFTER' => '6'];
        $first = $this->artisan(self::WORK, $settings);
        $this->app['queue']->push(new Note('a', seconds: 5));
        RealServer::waitUntil(fn () => $this->server->client->lLen('app_begun'), 'it begins');
        $this->kill($first);
        $this->artisan(self::WORK, $settings);
        [[$name, , $attempts]] = $this->waitForDone(1);
        $this->assertSame(['a', 2], [$name, $attempts]);
    }

    public function testAJobThatRenewsItsLeaseIsDoneOnce(): void
    {
        $settings = ['RETRY_AFTER' => '2'];
        [$this->artisan(self::WORK, $settings), $this->artisan(self::WORK, $settings)];
        $this->app['queue']->push(new RenewingNote('a', seconds: 4));
        $this->waitForDone(1);
        RealServer::waitUntil(fn () => $this->queue()->size() === 0, 'it is settled');
        $this->assertSame([['a', 1]], array_map(fn ($one) => [$one[0], $one[2]], $this->done()));
    }

    public function testNoJobIsLostWhenTheServerIsKilled(): void
    {
        $first = $this->artisan(self::WORK);
        $this->app['queue']->push(new Note('before'));
        $this->waitForDone(1);
        $this->app['queue']->later(2, new Note('later'));
        $this->server->kill();
        $this->server->start();
        // Laravel's worker ends at some errors of a connection. A supervisor starts another.
        $this->kill($first);
        $this->artisan(self::WORK);
        $this->waitForDone(2);
        $this->assertSame(['before', 'later'], array_column($this->done(), 0));
    }
}
