<?php

return [
    'default' => 'dehydrator',
    'connections' => [
        'dehydrator' => [
            'driver' => 'dehydrator',
            'connection' => 'default',
            'queue' => 'default',
            'retry_after' => (int) (getenv('RETRY_AFTER') ?: 60),
            'block_for' => 1,
        ],
        // Laravel's own.
        'redis' => [
            'driver' => 'redis',
            'connection' => 'default',
            'queue' => 'default',
            'retry_after' => (int) (getenv('RETRY_AFTER') ?: 60),
        ],
    ],
    'failed' => ['driver' => 'database-uuids', 'database' => 'sqlite', 'table' => 'failed_jobs'],
];
