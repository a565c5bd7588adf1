<?php

declare(strict_types=1);

namespace Dehydrator\Messenger\Tests;

use Dehydrator\Laravel\Tests\RealServer;
use Dehydrator\Messenger\Connection;
use Dehydrator\Messenger\DehydratorTransport;
use Dehydrator\Messenger\DehydratorTransportFactory;
use Dehydrator\Messenger\EveryStamp;
use PHPUnit\Framework\TestCase;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Exception\TransportException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;

class TransportTest extends TestCase
{
    private RealServer $server;

    /** @var list<resource> */
    private array $workers = [];

    protected function setUp(): void
    {
        $this->server = new RealServer();
    }

    protected function tearDown(): void
    {
        foreach ($this->workers as $worker) {
            $this->kill($worker);
        }
        $this->server->close();
    }

    private function dsn(string $query): string
    {
        return "dehydrator://127.0.0.1:{$this->server->port}/notes?$query";
    }

    private function transport(string $query = ''): DehydratorTransport
    {
        return (new DehydratorTransportFactory())->createTransport($this->dsn($query), [], new PhpSerializer());
    }

    private function send(DehydratorTransport $transport, Note $note, int $delay = 0): string
    {
        return $transport->send(new Envelope($note, [new DelayStamp($delay)]))->last(TransportMessageIdStamp::class)->getId();
    }

    /** @return list<string> the names of these messages */
    private static function names(iterable $envelopes): array
    {
        $names = [];
        foreach ($envelopes as $envelope) {
            $names[] = $envelope->getMessage()->name;
        }

        return $names;
    }

    public function testAModuleIsMissingOrTooOldByItsVersion(): void
    {
        foreach (['' => 'not loaded', '0.0.9' => '0.0.9, not 0.1.0', '0.1.0' => '', '0.10.0' => '', '1.0.0-rc.1' => ''] as $version => $text) {
            $said = '';
            try {
                Connection::verify($version === '' ? '' : "# dehydrator\r\ndehydrator_version:$version\r\n");
            } catch (TransportException $error) {
                $said = $error->getMessage();
            }
            $this->assertSame($text === '', $said === '', $version);
            $this->assertStringContainsString($text, $said);
        }
        Connection::verify(null);
    }

    public function testAMessageIsSentReceivedAndAcknowledged(): void
    {
        $transport = $this->transport();
        $id = $this->send($transport, new Note("a\0\xff\u{1F600}"));
        [$envelope] = $transport->get();
        $this->assertEquals(["a\0\xff\u{1F600}", $id], [
            $envelope->getMessage()->name,
            $envelope->last(TransportMessageIdStamp::class)->getId(),
        ]);
        $this->assertSame([], $transport->get());
        $transport->ack($envelope);
        $this->assertSame(0, $transport->getMessageCount());
    }

    public function testADelayIsExactToTheMillisecond(): void
    {
        $id = $this->send($this->transport(), new Note('a'), 60_123);
        $left = $this->server->client->rawCommand('DEHYDRATOR.PTTL', 'dehydrator:notes', $id);
        $this->assertGreaterThan(59_623, $left);
        $this->assertLessThanOrEqual(60_123, $left);
    }

    public function testAMessageWhoseTimeIsOverIsGivenOutAgainAndTheFirstWorkerCannotRemoveIt(): void
    {
        $transport = $this->transport('redeliver_timeout=0.2');
        $this->send($transport, new Note('a'));
        [$first] = $transport->get();
        [$second] = RealServer::waitUntil(fn () => $transport->get(), 'it comes again');
        $transport->ack($first);
        $this->assertSame(1, $transport->getMessageCount());
        $transport->reject($second);
        $this->assertSame(0, $transport->getMessageCount());
    }

    public function testMessagesAreListedFoundAndRemoved(): void
    {
        $transport = $this->transport();
        foreach (range(0, 249) as $n) {
            $id = $this->send($transport, new Note("$n"), 60_000 + 1000 * $n);
        }
        $this->assertSame(array_map('strval', range(0, 249)), self::names($transport->all()));
        $this->assertSame(['0', '1', '2'], self::names($transport->all(3)));
        $transport->reject($transport->find($id));
        $this->assertNull($transport->find($id));
        $this->assertSame(249, $transport->getMessageCount());
    }

    public function testWhatIsNoMessageIsRemovedAndReported(): void
    {
        $this->server->client->rawCommand('DEHYDRATOR.PUSH', 'dehydrator:notes', 0, 'no JSON', 'id');
        try {
            $this->transport()->get();
            $this->fail('it is no message');
        } catch (MessageDecodingFailedException) {
            $this->assertSame(0, $this->transport()->getMessageCount());
        }
    }

    public function testAStampMakesAMessageASchedule(): void
    {
        $transport = $this->transport('block_timeout=2');
        $report = new Envelope(new Note('report'), [new EveryStamp('report', '0 9 * * 1-5', 'Europe/Berlin')]);
        $transport->send($report);
        $transport->send($report);
        $transport->send(new Envelope(new Note('tick'), [new EveryStamp('tick', 50)]));
        $told = array_column($transport->schedules(), 'zone', 'name');
        ksort($told);
        $this->assertSame(['report' => 'Europe/Berlin', 'tick' => null], $told);
        foreach ([1, 2] as $_) {
            [$envelope] = $transport->get();
            $this->assertSame('tick', $envelope->getMessage()->name);
            $this->assertStringStartsWith('tick@', $envelope->last(TransportMessageIdStamp::class)->getId());
            $this->assertNull($envelope->last(EveryStamp::class));
            $transport->ack($envelope);
        }
        $this->assertSame([2, []], [$transport->unschedule('report', 'tick', 'none'), $transport->schedules()]);
    }

    public function testSymfonysTransportOfTheSameNameKeepsItsMessages(): void
    {
        $own = (new RedisTransportFactory())->createTransport(
            "redis://127.0.0.1:{$this->server->port}/notes?delete_after_ack=1",
            [],
            new PhpSerializer(),
        );
        $own->send(new Envelope(new Note('before')));
        $own->send(new Envelope(new Note('later'), [new DelayStamp(60_000)]));
        $transport = $this->transport();
        $this->send($transport, new Note('after'));
        $this->assertSame([['after'], ['before']], [self::names($transport->get()), self::names($own->get())]);
        $this->assertSame(1, $this->server->client->zCard('notes__queue'));
    }

    public function testAnErrorOfTheServerIsAnException(): void
    {
        $this->server->client->set('dehydrator:notes', 'a string');
        $this->expectException(TransportException::class);
        $this->expectExceptionMessage('WRONGTYPE');
        $this->send($this->transport(), new Note('a'));
    }

    public function testAnUnknownOptionIsRefused(): void
    {
        $this->expectException(InvalidArgumentException::class);
        $this->transport('lease=5');
    }

    public function testAWorkerRetriesAndHandlesEachOnceAndNoneEarly(): void
    {
        $transport = $this->transport();
        $this->startWorker('block_timeout=1');
        $due = [];
        foreach (range(0, 19) as $n) {
            $due["$n"] = microtime(true) + 0.5 + $n / 20;
            $this->send($transport, new Note("$n", failures: $n % 3), 500 + 50 * $n);
        }
        $done = RealServer::waitUntil(fn () => count($found = $this->done()) >= 20 ? $found : null, 'all are done');
        foreach ($done as [$name, $at]) {
            $this->assertGreaterThan($due[$name] - 0.002, $at);
        }
        RealServer::waitUntil(fn () => $transport->getMessageCount() === 0, 'nothing is left');
        $names = array_column($this->done(), 0);
        $this->assertEqualsCanonicalizing(array_keys($due), array_map('intval', $names));
    }

    public function testTheMessageOfAKilledWorkerIsHandledByAnotherAlsoAfterTheServerWasKilled(): void
    {
        $query = 'block_timeout=1&redeliver_timeout=6';
        $first = $this->startWorker($query);
        $this->send($this->transport(), new Note('a', seconds: 5));
        RealServer::waitUntil(fn () => $this->server->client->lLen('begun:a'), 'it begins');
        $this->kill($first);
        $this->server->kill();
        $this->server->start();
        $this->startWorker($query);
        RealServer::waitUntil(fn () => $this->done(), 'it is done');
        $this->assertSame(2, $this->server->client->lLen('begun:a'));
    }

    private function startWorker(string $query)
    {
        $log = ['file', $this->server->folder.'/worker.log', 'a'];
        $words = [PHP_BINARY, __DIR__.'/worker.php', $this->dsn($query)];

        return $this->workers[] = proc_open($words, [1 => $log, 2 => $log], $pipes);
    }

    private function kill($worker): void
    {
        if (is_resource($worker)) {
            proc_terminate($worker, SIGKILL);
            proc_close($worker);
        }
    }

    private function done(): array
    {
        return array_map(fn ($line) => json_decode($line, true), $this->server->client->lRange('done', 0, -1));
    }
}
