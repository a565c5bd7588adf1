<?php

// Debian's package of Messenger, this package, and the server of the tests of integrations/laravel.

declare(strict_types=1);

require_once 'Symfony/Component/Messenger/autoload.php';
require_once 'Symfony/Component/EventDispatcher/autoload.php';

spl_autoload_register(function (string $class): void {
    $folders = [
        'Dehydrator\\Messenger\\Tests\\' => __DIR__,
        'Dehydrator\\Messenger\\' => dirname(__DIR__).'/src',
        'Dehydrator\\Laravel\\Tests\\' => dirname(__DIR__, 2).'/laravel/tests',
    ];
    foreach ($folders as $prefix => $folder) {
        $file = $folder.'/'.str_replace('\\', '/', substr($class, strlen($prefix))).'.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;

            return;
        }
    }
});
