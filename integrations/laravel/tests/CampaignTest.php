<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

/**
 * Delayed jobs with Laravel's own driver and with this one, while a worker is killed every 1.5 seconds.
 *
 * @group slow
 */
class CampaignTest extends TestCase
{
    private const JOBS = 2000;

    /** Seconds from which, and for which, jobs come due. */
    private const FIRST = 5;

    private const DURING = 30;

    /** @dataProvider drivers */
    public function testWorkersAreKilled(string $driver): void
    {
        $settings = ['RETRY_AFTER' => '5'];
        $work = ['queue:work', $driver, '--sleep=0.05', '--tries=100'];
        $workers = [$this->artisan($work, $settings), $this->artisan($work, $settings)];
        $due = [];
        foreach (range(0, self::JOBS - 1) as $n) {
            $delay = self::FIRST + mt_rand() / mt_getrandmax() * self::DURING;
            $moment = now()->addMicroseconds((int) ($delay * 1e6));
            $due["$n"] = (float) $moment->format('U.u');
            $this->app['queue']->connection($driver)->later($moment, new Note("$n", seconds: 0.005));
        }
        for ($kills = 0; microtime(true) < max($due); $kills++) {
            usleep(1_500_000);
            $this->kill($workers[$kills % 2]);
            $workers[$kills % 2] = $this->artisan($work, $settings);
        }
        $isDone = fn () => $this->app['queue']->connection($driver)->size() === 0;
        RealServer::waitUntil($isDone, 'nothing is left');
        $late = $twice = $seen = [];
        foreach ($this->done() as [$name, $at]) {
            isset($seen[$name]) ? $twice[] = $name : $late[] = $at - $due[$name];
            $seen[$name] = true;
        }
        sort($late);
        printf(
            "\n%s: %d jobs, %d kills: never %d, again %d, early %d, late: median %.3f s, p99 %.3f s\n",
            $driver,
            self::JOBS,
            $kills,
            self::JOBS - count($seen),
            count($twice),
            count(array_filter($late, fn ($by) => $by < -0.001)),
            $late[intdiv(count($late), 2)],
            $late[intdiv(count($late) * 99, 100)],
        );
        $this->assertCount(self::JOBS, $seen);
        if ($driver === 'dehydrator') {
            $this->assertGreaterThan(-0.001, $late[0]);
        }
    }

    public function drivers(): array
    {
        return [['redis'], ['dehydrator']];
    }
}
