<?php

// A worker, as `messenger:consume`, which notes in the server what it does. Its argument is the DSN.

declare(strict_types=1);

use Dehydrator\Messenger\DehydratorTransportFactory;
use Dehydrator\Messenger\Tests\Note;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\EventListener\SendFailedMessageForRetryListener;
use Symfony\Component\Messenger\EventListener\StopWorkerOnSigtermSignalListener;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Retry\MultiplierRetryStrategy;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

require __DIR__.'/bootstrap.php';

$dsn = $argv[1];
$redis = new Redis();
$redis->connect('127.0.0.1', parse_url($dsn, PHP_URL_PORT));
$handle = function (Note $note) use ($redis): void {
    $times = $redis->rPush("begun:$note->name", '1');
    usleep((int) ($note->seconds * 1e6));
    if ($times <= $note->failures) {
        throw new RuntimeException('not yet');
    }
    $redis->rPush('done', json_encode([$note->name, microtime(true)]));
};

/** Returns one thing for each name. */
class Only implements Psr\Container\ContainerInterface
{
    public function __construct(private object $only)
    {
    }

    public function get(string $id): object
    {
        return $this->only;
    }

    public function has(string $id): bool
    {
        return true;
    }
}

$transport = (new DehydratorTransportFactory())->createTransport($dsn, [], new PhpSerializer());
$bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator([Note::class => [$handle]]))]);
$events = new EventDispatcher();
$events->addSubscriber(new SendFailedMessageForRetryListener(new Only($transport), new Only(new MultiplierRetryStrategy(3, 100))));
$events->addSubscriber(new StopWorkerOnSigtermSignalListener());
(new Worker(['notes' => $transport], $bus, $events))->run();
