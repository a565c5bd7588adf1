<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Bus;
use Illuminate\Support\Facades\DB;
use Illuminate\Support\Facades\RateLimiter;
use Illuminate\Support\Facades\Schema;

/** What Laravel has around its queues. */
class FrameworkTest extends TestCase
{
    private const WORK = ['queue:work', '--sleep=0', '--tries=2'];

    public function testAUniqueJobIsPushedOnce(): void
    {
        foreach (['a', 'a', 'b'] as $name) {
            UniqueNote::dispatch($name);
        }
        $this->assertSame(2, $this->queue()->size());
        $this->artisan(self::WORK);
        $this->waitForDone(2);
        RealServer::waitUntil(fn () => $this->queue()->size() === 0, 'both are settled');
        UniqueNote::dispatch('a');
        $this->waitForDone(3);
    }

    public function testJobsWithoutOverlappingAreReleased(): void
    {
        $work = ['queue:work', '--sleep=0', '--tries=99'];
        [$this->artisan($work), $this->artisan($work)];
        $this->queue()->bulk([new ApartNote('a', 1), new ApartNote('b', 1)]);
        $at = array_column($this->waitForDone(2), 1);
        $this->assertGreaterThanOrEqual(1, abs($at[1] - $at[0]));
    }

    public function testJobsBeyondARateLimitAreReleasedUntilTheNextMinute(): void
    {
        RateLimiter::for('notes', fn () => Limit::perMinute(1));
        $this->queue()->bulk([new LimitedNote('a'), new LimitedNote('b')]);
        $kernel = $this->app->make(Kernel::class);
        $work = fn () => $kernel->call('queue:work', ['--once' => true, '--sleep' => 0, '--tries' => 9]);
        $work();
        $work();
        $this->assertSame([['a'], 1], [array_column($this->done(), 0), $this->queue()->size()]);
        [, [[$id]]] = $this->command('RANGE', '-', '+');
        $left = $this->command('PTTL', $id);
        $this->assertGreaterThan(0, $left);
        $this->assertLessThanOrEqual(63_000, $left);
        // As if the minute were over.
        RateLimiter::clear(md5('notes'));
        $this->command('TOUCH', 0, $id);
        $work();
        $this->assertSame([['a', 'b'], 0], [array_column($this->done(), 0), $this->queue()->size()]);
    }

    private function command(string $name, string|int ...$words): mixed
    {
        return $this->server->client->rawCommand("DEHYDRATOR.$name", 'app_dehydrator:default', ...$words);
    }

    public function testAJobIsPushedWhenTheTransactionIsCommitted(): void
    {
        DB::transaction(function (): void {
            Note::dispatch('a')->afterCommit();
            $this->assertSame(0, $this->queue()->size());
        });
        $this->assertSame(1, $this->queue()->size());
    }

    public function testABatchIsDone(): void
    {
        Schema::create('job_batches', function (Blueprint $table): void {
            $table->string('id')->primary();
            $table->string('name');
            $table->integer('total_jobs');
            $table->integer('pending_jobs');
            $table->integer('failed_jobs');
            $table->text('failed_job_ids');
            $table->mediumText('options')->nullable();
            $table->integer('cancelled_at')->nullable();
            $table->integer('created_at');
            $table->integer('finished_at')->nullable();
        });
        $batch = Bus::batch([new Note('a'), new Note('b'), new Note('c')])->dispatch();
        $this->artisan(self::WORK);
        RealServer::waitUntil(fn () => Bus::findBatch($batch->id)->finished(), 'the batch is finished');
        $this->assertEqualsCanonicalizing(['a', 'b', 'c'], array_column($this->done(), 0));
    }

    public function testAJobThatFailsIsRetriedFromTheTableOfFailedJobs(): void
    {
        Schema::create('failed_jobs', function (Blueprint $table): void {
            $table->id();
            $table->string('uuid')->unique();
            $table->text('connection');
            $table->text('queue');
            $table->longText('payload');
            $table->longText('exception');
            $table->timestamp('failed_at')->useCurrent();
        });
        $this->queue()->push(new Failing('a'));
        $this->artisan(self::WORK);
        RealServer::waitUntil(fn () => DB::table('failed_jobs')->count(), 'it has failed');
        RealServer::waitUntil(fn () => $this->queue()->size() === 0, 'it has left the queue');
        $this->server->client->set('app_mended', '1');
        $this->app->make(Kernel::class)->call('queue:retry', ['id' => ['all']]);
        $this->assertSame(['a'], array_column($this->waitForDone(1), 0));
    }

    public function testAQueueIsMonitoredAndCleared(): void
    {
        $this->queue()->bulk([new Note('a'), (new Note('b'))->delay(60)]);
        $kernel = $this->app->make(Kernel::class);
        $kernel->call('queue:monitor', ['queues' => 'dehydrator:default', '--max' => 1]);
        $this->assertStringContainsString('| 2 ', str_replace('2    ', '2 ', $kernel->output()));
        $kernel->call('queue:clear', ['connection' => 'dehydrator', '--force' => true]);
        $this->assertSame(0, $this->queue()->size());
    }
}
