<?php

declare(strict_types=1);

namespace Dehydrator\Laravel;

use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Adds the driver `dehydrator` for connections in config/queue.php. */
class DehydratorServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->callAfterResolving('queue', function (QueueManager $queues): void {
            $queues->addConnector('dehydrator', fn () => new DehydratorConnector($this->app['redis']));
        });
    }
}
