<?php

return [
    'default' => 'sqlite',
    'connections' => [
        'sqlite' => ['driver' => 'sqlite', 'database' => getenv('APP_FOLDER').'/database.sqlite', 'prefix' => ''],
    ],
    'redis' => [
        'client' => getenv('REDIS_CLIENT') ?: 'phpredis',
        'options' => ['prefix' => 'app_'],
        'default' => ['host' => '127.0.0.1', 'port' => (int) getenv('REDIS_PORT'), 'database' => 0],
    ],
];
