<?php

// Symfony's Messenger. BENCH_SCHEME selects the transport, and BENCH_OPTIONS are those of its DSN.

declare(strict_types=1);

use Dehydrator\Messenger\DehydratorTransportFactory;
use Symfony\Component\EventDispatcher\EventDispatcher;
use Symfony\Component\Messenger\Bridge\Redis\Transport\RedisTransportFactory;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Handler\HandlersLocator;
use Symfony\Component\Messenger\MessageBus;
use Symfony\Component\Messenger\Middleware\HandleMessageMiddleware;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Transport\Serialization\PhpSerializer;
use Symfony\Component\Messenger\Worker;

require dirname(__DIR__, 2).'/symfony/tests/bootstrap.php';
require __DIR__.'/note.php';

class NoteMessage
{
    public function __construct(public string $id, public float $due)
    {
    }
}

$isOurs = getenv('BENCH_SCHEME') === 'dehydrator';
$factory = $isOurs ? new DehydratorTransportFactory() : new RedisTransportFactory();
// Symfony's own needs a name for each consumer.
$options = getenv('BENCH_OPTIONS').($isOurs ? '' : '&consumer='.getmypid());
$dsn = sprintf('%s://127.0.0.1:%d/notes?%s', getenv('BENCH_SCHEME'), parse_url(getenv('BENCH_URL'), PHP_URL_PORT), $options);
$transport = $factory->createTransport($dsn, [], new PhpSerializer());
if ($argv[1] === 'work') {
    $handlers = [NoteMessage::class => [fn (NoteMessage $message) => note($message->id, $message->due)]];
    $bus = new MessageBus([new HandleMessageMiddleware(new HandlersLocator($handlers))]);
    (new Worker(['notes' => $transport], $bus, new EventDispatcher()))->run(['sleep' => (int) getenv('BENCH_SLEEP')]);
}
foreach (planned() as $id => $due) {
    $delay = max(0, (int) ceil(($due - microtime(true)) * 1000));
    $transport->send(new Envelope(new NoteMessage("$id", $due), [new DelayStamp($delay)]));
}
