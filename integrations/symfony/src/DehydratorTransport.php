<?php

declare(strict_types=1);

namespace Dehydrator\Messenger;

use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\LogicException;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\ListableReceiverInterface;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Messages in a dehydrator. A worker holds a message under a lease until it is acknowledged or rejected. */
class DehydratorTransport implements TransportInterface, ListableReceiverInterface, MessageCountAwareInterface
{
    /** How many messages are read at a time to list them. */
    private const BATCH = 100;

    public function __construct(private Connection $connection, private SerializerInterface $serializer)
    {
    }

    public function send(Envelope $envelope): Envelope
    {
        $message = json_encode($this->serializer->encode($envelope), JSON_THROW_ON_ERROR);
        if ($every = $envelope->last(EveryStamp::class)) {
            $zone = $every->zone === null ? [] : ['ZONE', $every->zone];
            $this->connection->command('DEHYDRATOR.EVERY', $this->connection->key, $every->plan, $message, $every->name, ...$zone);

            return $envelope;
        }
        $id = bin2hex(random_bytes(16));
        $this->connection->push($id, $message, $envelope->last(DelayStamp::class)?->getDelay() ?? 0);

        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        if (! $row = $this->connection->lease()) {
            return [];
        }
        [$id, $message, , $token] = $row;
        try {
            return [$this->decode($id, $message)->with(new HeldStamp($token))];
        } catch (MessageDecodingFailedException $error) {
            $this->connection->command('DEHYDRATOR.SETTLE', $this->connection->key, $token, $id);
            throw $error;
        }
    }

    public function ack(Envelope $envelope): void
    {
        $this->remove($envelope);
    }

    /** Removes a message. Messenger sends those again that are to be retried. */
    public function reject(Envelope $envelope): void
    {
        $this->remove($envelope);
    }

    private function remove(Envelope $envelope): void
    {
        $id = $envelope->last(TransportMessageIdStamp::class)?->getId()
            ?? throw new LogicException('The message was not received from this transport.');
        if ($token = $envelope->last(HeldStamp::class)?->token) {
            $this->connection->command('DEHYDRATOR.SETTLE', $this->connection->key, $token, $id);
        } else {
            $this->connection->command('DEHYDRATOR.REM', $this->connection->key, $id);
        }
    }

    /** @return list<array<string, mixed>> what DEHYDRATOR.SCHEDULES replies: name, plan, next, last, missed … */
    public function schedules(): array
    {
        $rows = $this->connection->command('DEHYDRATOR.SCHEDULES', $this->connection->key);

        // A nil in an array is false for phpredis.
        return array_map(fn ($row) => array_map(fn ($it) => $it === false ? null : $it, array_column(array_chunk($row, 2), 1, 0)), $rows);
    }

    /** Removes schedules, and returns how many there were. */
    public function unschedule(string ...$names): int
    {
        return $this->connection->command('DEHYDRATOR.UNSCHEDULE', $this->connection->key, ...$names);
    }

    public function all(?int $limit = null): iterable
    {
        $start = '-';
        $limit ??= PHP_INT_MAX;
        do {
            $words = ['DEHYDRATOR.RANGE', $this->connection->key, $start, '+', 'COUNT', self::BATCH, 'WITHELEMENTS'];
            [$start, $rows] = $this->connection->command(...$words);
            foreach ($rows as $row) {
                if ($limit-- <= 0) {
                    return;
                }
                yield $this->decode($row[0], end($row));
            }
        } while ($start);
    }

    public function find(mixed $id): ?Envelope
    {
        $message = $this->connection->command('DEHYDRATOR.LOOK', $this->connection->key, $id);

        return $message === null ? null : $this->decode($id, $message);
    }

    /** Counts all messages, due or not, and those that workers hold. */
    public function getMessageCount(): int
    {
        return $this->connection->command('DEHYDRATOR.LEN', $this->connection->key);
    }

    private function decode(string $id, string $message): Envelope
    {
        $told = json_decode($message, true);
        if (! is_array($told)) {
            throw new MessageDecodingFailedException("The message $id is not of this transport.");
        }

        return $this->serializer->decode($told)->with(new TransportMessageIdStamp($id));
    }
}
