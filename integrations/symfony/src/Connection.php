<?php

declare(strict_types=1);

namespace Dehydrator\Messenger;

use Redis;
use RedisException;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Exception\TransportException;

/** A connection to the server with a dehydrator. It connects at the first command, and again after one that failed. */
class Connection
{
    /** The options, and their defaults. Times are in seconds. */
    private const OPTIONS = [
        // Until another worker gets the message of a dead one. Longer than the longest handler takes.
        'redeliver_timeout' => 3600,
        // For which a worker waits in the server for a message: for one that has this transport alone.
        'block_timeout' => 0,
        'dbindex' => 0,
    ];

    /** The oldest version of the module that this package works with. */
    private const NEEDED = '0.1.0';

    private ?Redis $client = null;

    private bool $isChecked = false;

    /** Of a poll whose reply has not arrived: the next one gets the same message. */
    private ?string $token = null;

    /** @param array<string, mixed> $at what parse_url returns */
    private function __construct(private array $at, private array $options, public readonly string $key)
    {
    }

    public static function of(string $dsn, array $options): self
    {
        $at = parse_url($dsn);
        if ($at === false || ! isset($at['host'])) {
            throw new InvalidArgumentException("The DSN \"$dsn\" has no host.");
        }
        parse_str($at['query'] ?? '', $query);
        // Symfony passes the name of the transport too.
        unset($options['transport_name']);
        $options = $query + $options + self::OPTIONS;
        if ($unknown = array_diff_key($options, self::OPTIONS)) {
            throw new InvalidArgumentException('Unknown options: '.implode(', ', array_keys($unknown)).'.');
        }

        // The stream of Symfony's own transport has the bare name.
        $key = 'dehydrator:'.(trim($at['path'] ?? '', '/') ?: 'messages');

        return new self($at, array_map('floatval', $options), $key);
    }

    public function push(string $id, string $message, int $milliseconds): void
    {
        $this->command('DEHYDRATOR.PUSH', $this->key, max(0, $milliseconds), $message, $id);
    }

    /** @return ?array{string, string, int, string} the id, the message, how often it was given out, and the token */
    public function lease(): ?array
    {
        if (! $this->isChecked) {
            self::verify($this->info());
            $this->isChecked = true;
        }
        $this->token ??= bin2hex(random_bytes(8));
        $lease = ['LEASE', (int) ($this->options['redeliver_timeout'] * 1000), 'TOKEN', $this->token];
        $block = $this->options['block_timeout'] > 0 ? ['BLOCK', (int) ($this->options['block_timeout'] * 1000)] : [];
        $rows = $this->command('DEHYDRATOR.POLL', $this->key, 'COUNT', 1, ...$lease, ...$block);
        $this->token = null;

        return $rows[0] ?? null;
    }

    /** Returns what the server tells of its module; null if the user may not read that. */
    private function info(): ?string
    {
        try {
            return (string) $this->command('INFO', 'dehydrator');
        } catch (TransportException $error) {
            return str_starts_with($error->getMessage(), 'NOPERM') ? null : throw $error;
        }
    }

    /** @throws TransportException if the module is missing or too old */
    public static function verify(?string $info): void
    {
        if ($info !== null && ! preg_match('/^dehydrator_version:([\d.]+)/m', $info, $version)) {
            throw new TransportException('The server has not loaded the module Dehydrator.');
        }
        if ($info !== null && version_compare($version[1], self::NEEDED, '<')) {
            throw new TransportException("The server's module Dehydrator is {$version[1]}, not ".self::NEEDED.' or later.');
        }
    }

    /** @throws TransportException if the reply is an error, or the connection fails */
    public function command(string|int ...$words): mixed
    {
        try {
            $client = $this->client ??= $this->connect();
            $client->clearLastError();
            $reply = $client->rawCommand(...$words);
        } catch (RedisException $error) {
            $this->client = null;
            throw new TransportException($error->getMessage(), 0, $error);
        }
        if (null !== $error = $client->getLastError()) {
            throw new TransportException($error);
        }

        return $reply === false ? null : $reply;
    }

    private function connect(): Redis
    {
        $client = new Redis();
        $scheme = $this->at['scheme'] === 'dehydrators' ? 'tls://' : '';
        // Longer than the server takes to reply that nothing is due.
        $silence = 30 + $this->options['block_timeout'];
        $client->connect($scheme.$this->at['host'], $this->at['port'] ?? 6379, 5, null, 0, $silence);
        if (isset($this->at['pass'])) {
            $client->auth(array_filter(array_map('urldecode', [$this->at['user'] ?? '', $this->at['pass']])));
        }
        if ($this->options['dbindex'] > 0) {
            $client->select((int) $this->options['dbindex']);
        }

        return $client;
    }
}
