<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use Illuminate\Contracts\Redis\Factory;
use Illuminate\Redis\Connections\PhpRedisConnection;
use Predis\Command\RawCommand;
use Predis\Response\ServerException;
use Redis;
use RedisException;
use RuntimeException;

/** Sends commands over one of Laravel's connections to Redis, by phpredis or Predis. */
class Server
{
    private bool $isChecked = false;

    public function __construct(private Factory $redis, private ?string $connection)
    {
    }

    /**
     * Sends a command. Returns its reply, where nil is null.
     *
     * @throws RuntimeException if the reply is an error, QueueFull if that is FULL, or the connection fails
     */
    public function command(string|int ...$words): mixed
    {
        $connection = $this->redis->connection($this->connection);
        if (! $connection instanceof PhpRedisConnection) {
            try {
                return $connection->client()->executeCommand(RawCommand::create(...$words));
            } catch (ServerException $error) {
                throw self::exception($error->getMessage());
            }
        }
        $connection->client()->clearLastError();
        try {
            // Laravel connects again, for the next command, if the server has gone away.
            $reply = $connection->command('rawCommand', $words);
        } catch (RedisException $error) {
            $named = self::exception($error->getMessage());
            throw $named instanceof QueueFull ? $named : $error;
        }
        $error = $connection->client()->getLastError();
        if ($error !== null) {
            throw self::exception($error);
        }

        return $reply === false ? null : $reply;
    }

    public static function exception(string $reply): RuntimeException
    {
        return match (1) {
            preg_match('/^(FULL|OOM) /', $reply) => new QueueFull($reply),
            preg_match('/unknown command .dehydrator/i', $reply) => new ModuleMissing($reply),
            default => new RuntimeException($reply),
        };
    }

    /** Checks the module by INFO, once. Who may not read that finds out by the next command. */
    public function check(): void
    {
        if ($this->isChecked) {
            return;
        }
        try {
            self::verify((string) $this->command('INFO', 'dehydrator'));
        } catch (RuntimeException $error) {
            if (! str_starts_with($error->getMessage(), 'NOPERM')) {
                throw $error;
            }
        }
        $this->isChecked = true;
    }

    /** @throws ModuleMissing|ModuleTooOld */
    public static function verify(string $info): void
    {
        if (! preg_match('/^dehydrator_version:([\d.]+)/m', $info, $version)) {
            throw new ModuleMissing('The server has not loaded the module Dehydrator.');
        }
        if (version_compare($version[1], ModuleTooOld::NEEDED, '<')) {
            throw new ModuleTooOld("The server's module Dehydrator is {$version[1]}, not ".ModuleTooOld::NEEDED.' or later.');
        }
    }

    /** Returns the key with the prefix of the connection, which clients do not add to commands that they do not know. */
    public function key(string $name): string
    {
        $client = $this->redis->connection($this->connection)->client();
        if ($client instanceof Redis) {
            return $client->_prefix($name);
        }

        return ($client->getOptions()->prefix?->getPrefix() ?? '').$name;
    }
}
