<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use DateInterval;
use Dehydrator\Laravel\DehydratorQueue;
use Dehydrator\Laravel\Server;
use Illuminate\Support\Carbon;
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
