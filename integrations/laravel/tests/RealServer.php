<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Redis;
use RedisException;
use RuntimeException;

/** A server with the module, in a folder of its own, that can be killed and started again on its port. */
class RealServer
{
    public readonly int $port;

    public readonly string $folder;

    public readonly Redis $client;

    /** @var resource */
    private $process;

    public function __construct()
    {
        $this->folder = sys_get_temp_dir().'/laravel-'.bin2hex(random_bytes(6));
        mkdir($this->folder);
        $this->port = self::freePort();
        $this->client = new Redis();
        $this->start();
    }

    /** Below those that the system draws for clients. */
    private static function freePort(): int
    {
        do {
            $port = random_int(12_000, 31_999);
            $listening = @stream_socket_server("tcp://127.0.0.1:$port");
        } while (! $listening);
        fclose($listening);

        return $port;
    }

    public function start(): void
    {
        $module = getenv('DEHYDRATOR_MODULE') ?: dirname(__DIR__, 3).'/target/release/libdehydrator.so';
        $words = [getenv('DEHYDRATOR_SERVER') ?: 'redis-server', '--port', (string) $this->port, '--dir', $this->folder];
        $words = [...$words, '--save', '', '--appendonly', 'yes', '--appendfsync', 'no', '--loadmodule', $module];
        $log = ['file', "$this->folder/log", 'a'];
        $this->process = proc_open($words, [1 => $log, 2 => $log], $pipes);
        self::waitUntil(fn () => $this->answers(), "the server answers, see $this->folder/log");
    }

    private function answers(): bool
    {
        if (! proc_get_status($this->process)['running']) {
            throw new RuntimeException("the server ended, see $this->folder/log");
        }
        try {
            return @$this->client->connect('127.0.0.1', $this->port) && $this->client->ping();
        } catch (RedisException) {
            return false;
        }
    }

    public function kill(): void
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
    }

    public function close(): void
    {
        $this->client->close();
        $this->kill();
        exec('rm -r '.escapeshellarg($this->folder));
    }

    /** Waits until the function returns a true value, and returns it. */
    public static function waitUntil(callable $true, string $what): mixed
    {
        $end = microtime(true) + 120;
        while (! $found = $true()) {
            if (microtime(true) > $end) {
                throw new RuntimeException("waited in vain until $what");
            }
            usleep(10_000);
        }

        return $found;
    }
}
