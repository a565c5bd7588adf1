<?php

return [
    'default' => 'redis',
    'stores' => ['redis' => ['driver' => 'redis', 'connection' => 'default']],
    'prefix' => 'cache',
];
