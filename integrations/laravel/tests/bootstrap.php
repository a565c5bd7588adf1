<?php

// Debian's packages of Laravel and Predis, and this package. With Composer, vendor/autoload.php would do all that.

declare(strict_types=1);

require_once 'Illuminate/autoload.php';
require_once 'Predis/Autoloader.php';

Predis\Autoloader::register();
spl_autoload_register(function (string $class): void {
    foreach (['Dehydrator\\Laravel\\Tests\\' => __DIR__, 'Dehydrator\\Laravel\\' => dirname(__DIR__).'/src'] as $prefix => $folder) {
        $file = $folder.'/'.str_replace('\\', '/', substr($class, strlen($prefix))).'.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;

            return;
        }
    }
});
