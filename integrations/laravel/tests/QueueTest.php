<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use DateInterval;
use Dehydrator\Laravel\DehydratorQueue;
use Dehydrator\Laravel\QueueFull;
use Dehydrator\Laravel\Server;
use Illuminate\Support\Carbon;
use InvalidArgumentException;
use RuntimeException;

/** A queue, without a worker. */
class QueueTest extends TestCase
{
    /** @dataProvider clients */
    public function testAJobIsPushedTakenAndDeleted(string $client): void
    {
        $this->app = $this->application($client);
        $queue = $this->queue();
        $id = $queue->push(new Note('a'));
        $this->assertSame(1, $queue->size());
        $this->assertSame(1, $this->server->client->exists('app_dehydrator:default'));
        $job = $queue->pop();
        $this->assertSame([$id, 1, 'default'], [$job->getJobId(), $job->attempts(), $job->getQueue()]);
        $this->assertSame(Note::class, $job->resolveName());
        $this->assertNull($queue->pop());
        $job->delete();
        $this->assertSame(0, $queue->size());
    }

    public function clients(): array
    {
        return [['phpredis'], ['predis']];
    }

    /** @dataProvider clients */
    public function testAnErrorOfTheServerIsAnException(string $client): void
    {
        $this->app = $this->application($client);
        $this->server->client->set('app_dehydrator:default', 'a string');
        $this->expectExceptionMessage('WRONGTYPE');
        $this->queue()->push(new Note('a'));
    }

    /** @dataProvider delays */
    public function testADelayIsExactToTheMillisecond(mixed $delay, int $milliseconds): void
    {
        Carbon::setTestNow($now = Carbon::now());
        $id = $this->queue()->later(is_callable($delay) ? $delay($now) : $delay, new Note('a'));
        $left = $this->server->client->rawCommand('DEHYDRATOR.PTTL', 'app_dehydrator:default', $id);
        Carbon::setTestNow();
        $this->assertGreaterThan($milliseconds - 500, $left);
        $this->assertLessThanOrEqual($milliseconds, $left);
    }

    public function delays(): array
    {
        return [
            'seconds' => [60, 60_000],
            'parts of a second' => [60.25, 60_250],
            'a moment' => [fn (Carbon $now) => $now->copy()->addMilliseconds(90_125), 90_125],
            'an interval' => [new DateInterval('PT2M'), 120_000],
        ];
    }

    public function testAJobIsReleasedWithADelay(): void
    {
        $queue = $this->queue();
        $queue->push(new Note('a'));
        $job = $queue->pop();
        $job->release(2);
        $left = $this->server->client->rawCommand('DEHYDRATOR.PTTL', 'app_dehydrator:default', $job->getJobId());
        $this->assertGreaterThan(0, $left);
        $this->assertLessThanOrEqual(2000, $left);
        $job = RealServer::waitUntil(fn () => $queue->pop(), 'it is due again');
        $this->assertSame(2, $job->attempts());
    }

    public function testAJobWhoseLeaseHasExpiredIsGivenOutAgainAndTheFirstWorkerCannotDeleteIt(): void
    {
        putenv('RETRY_AFTER=1');
        $this->app = $this->application('phpredis');
        putenv('RETRY_AFTER');
        $queue = $this->queue();
        $queue->push(new Note('a'));
        $first = $queue->pop();
        $second = RealServer::waitUntil(fn () => $queue->pop(), 'it comes again');
        $first->delete();
        $this->assertFalse($first->renew(60));
        $this->assertTrue($second->renew(60));
        $this->assertSame([1, 2], [$queue->size(), $second->attempts()]);
    }

    public function testALeaseIsAsLongAsTheJobsOwnTimeout(): void
    {
        $queue = $this->queue();
        $id = $queue->push(new Note('a', timeout: 600));
        $queue->pop();
        $left = $this->server->client->rawCommand('DEHYDRATOR.PTTL', 'app_dehydrator:default', $id);
        $this->assertGreaterThan(600_000, $left);
    }

    public function testManyJobsArePushedByOneCommand(): void
    {
        $jobs = [new Note('a'), (new Note('b'))->delay(60), new Note('c')];
        $before = $this->calls();
        $this->queue()->bulk($jobs);
        $this->assertSame([3, $before + 1], [$this->queue()->size(), $this->calls()]);
        $names = array_map(fn () => unserialize($this->queue()->pop()->payload()['data']['command'])->name, [0, 1]);
        $this->assertSame(['a', 'c'], $names);
    }

    public function testABulkForWhichThereIsNoRoomIsRefusedAsAWhole(): void
    {
        $this->server->client->rawCommand('DEHYDRATOR.LIMIT', 'app_dehydrator:default', 'LENGTH', 2);
        $jobs = array_map(fn ($n) => (new Note("$n"))->delay(60), range(0, 2));
        try {
            $this->queue()->bulk([(new Note('other'))->onQueue('other'), ...$jobs]);
            $this->fail('there is no room');
        } catch (QueueFull) {
            $this->assertSame(0, $this->queue()->size());
        }
        $this->queue()->bulk(array_slice($jobs, 1));
        $this->expectException(QueueFull::class);
        $this->queue()->push(new Note('d'));
    }

    public function testALargeBulkIsSeveralCommands(): void
    {
        $before = $this->calls();
        $this->queue()->bulk(array_map(fn ($n) => new Note("$n"), range(0, 2499)));
        $this->assertSame([2500, $before + 3], [$this->queue()->size(), $this->calls()]);
        $large = str_repeat('x', 400_000);
        $this->queue()->bulk([new Note($large), new Note($large), new Note($large)], '', 'large');
        $this->assertSame([3, $before + 5], [$this->queue()->size('large'), $this->calls()]);
    }

    /** @dataProvider wrongTimes */
    public function testALeaseThatNeverEndsIsRefused(mixed $seconds): void
    {
        $this->app['config']->set('queue.connections.endless', ['driver' => 'dehydrator', 'retry_after' => $seconds]);
        $this->expectException(InvalidArgumentException::class);
        $this->app['queue']->connection('endless');
    }

    public function wrongTimes(): array
    {
        return [[null], [0], ['soon']];
    }

    /** @dataProvider clients */
    public function testEachOccurrenceOfAScheduleIsAJobOfItsOwn(string $client): void
    {
        $this->app = $this->application($client);
        $queue = $this->queue();
        $this->assertTrue($queue->every('report', '0 9 * * 1-5', new Note('a'), 'Europe/Berlin'));
        $this->assertFalse($queue->every('report', '0 9 * * 1-5', new Note('a'), 'Europe/Berlin'));
        $this->assertTrue($queue->every('tick', 50, new Note('b')));
        $zones = array_column($queue->schedules(), 'zone', 'name');
        ksort($zones);
        $this->assertSame(['report' => 'Europe/Berlin', 'tick' => null], $zones);
        $seen = [];
        while (count($seen) < 2) {
            if ($job = $queue->pop()) {
                $this->assertSame($job->getJobId(), $job->payload()['id']);
                $this->assertStringStartsWith('tick@', $job->getJobId());
                $this->assertMatchesRegularExpression('/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/', $job->uuid());
                $seen[$job->uuid()] = unserialize($job->payload()['data']['command'])->name;
                $job->delete();
            }
        }
        $this->assertSame(['b', 'b'], array_values($seen));
        $this->assertSame([2, []], [$queue->unschedule(['report', 'tick']), $queue->schedules()]);
    }

    private function calls(): int
    {
        $told = $this->server->client->info('commandstats')['cmdstat_dehydrator.mpush'] ?? 'calls=0';

        return (int) substr($told, strlen('calls='));
    }

    public function testAQueueIsCleared(): void
    {
        $this->queue()->bulk([new Note('a'), new Note('b')], '', 'other');
        $this->assertSame([2, 0], [$this->queue()->clear('other'), $this->queue()->size('other')]);
    }

    public function testAJobWhosePollLostItsReplyIsGivenOutToTheNextPoll(): void
    {
        $server = new class ($this->app['redis'], null) extends Server {
            public bool $isLosing = false;

            public function command(string|int ...$words): mixed
            {
                $reply = parent::command(...$words);

                return $this->isLosing ? throw new RuntimeException('the reply is lost') : $reply;
            }
        };
        $queue = new DehydratorQueue($server);
        $queue->setContainer($this->app);
        $queue->setConnectionName('dehydrator');
        $id = $queue->push(new Note('a'));
        $server->isLosing = true;
        try {
            $queue->pop();
        } catch (RuntimeException) {
            $server->isLosing = false;
        }
        $job = $queue->pop();
        $this->assertSame([$id, 1], [$job->getJobId(), $job->attempts()]);
    }
}
