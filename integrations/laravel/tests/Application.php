<?php

declare(strict_types=1);

namespace Dehydrator\Laravel\Tests;

use Illuminate\Contracts;
use Illuminate\Foundation;

/** A small application, whose settings are in app/config. */
class Application
{
    public static function make(string $folder): Foundation\Application
    {
        @mkdir("$folder/bootstrap/cache", recursive: true);
        @mkdir("$folder/storage/framework/cache", recursive: true);
        touch("$folder/database.sqlite");
        if (! is_link("$folder/config")) {
            symlink(__DIR__.'/app/config', "$folder/config");
        }
        $app = new Foundation\Application($folder);
        $app->singleton(Contracts\Console\Kernel::class, Foundation\Console\Kernel::class);
        $app->singleton(Contracts\Debug\ExceptionHandler::class, Foundation\Exceptions\Handler::class);

        return $app;
    }
}
