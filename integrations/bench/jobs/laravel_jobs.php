<?php

// Laravel, in the application of its tests. `send DRIVER` sends; other words are those of artisan.

declare(strict_types=1);

use Dehydrator\Laravel\Tests\Application;
use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Console\Kernel;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Illuminate\Support\Carbon;
use Symfony\Component\Console\Input\ArgvInput;
use Symfony\Component\Console\Output\ConsoleOutput;

require dirname(__DIR__, 2).'/laravel/tests/bootstrap.php';
require __DIR__.'/note.php';

class NoteJob implements ShouldQueue
{
    use InteractsWithQueue;
    use Queueable;

    public function __construct(public string $id, public float $due)
    {
    }

    public function handle(): void
    {
        note($this->id, $this->due);
    }
}

putenv('APP_FOLDER='.dirname(getenv('BENCH_NOTES')).'/app-'.getmypid());
putenv('REDIS_PORT='.parse_url(getenv('BENCH_URL'), PHP_URL_PORT));
$app = Application::make(getenv('APP_FOLDER'));
$kernel = $app->make(Kernel::class);
$kernel->bootstrap();
// The cache in Redis, where workers look for `queue:restart`, would be measured too.
$app['config']->set('cache', ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]]);
if ($argv[1] !== 'send') {
    exit($kernel->handle(new ArgvInput(), new ConsoleOutput()));
}
foreach (planned() as $id => $due) {
    $app['queue']->connection($argv[2])->later(Carbon::createFromFormat('U.u', sprintf('%.6f', $due)), new NoteJob("$id", $due));
}
