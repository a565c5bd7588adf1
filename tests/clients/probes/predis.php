<?php
// Predis, in the version that PHP finds.

require 'Predis/Autoloader.php';
Predis\Autoloader::register();

[, $mode, $port] = $argv;
parse_str(implode('&', array_slice($argv, 3)), $settings);

$server = ['host' => '127.0.0.1', 'port' => (int) $port];
if (isset($settings['timeout'])) {
    $server['read_write_timeout'] = (float) $settings['timeout'];
}

if ($mode === 'cluster') {
    $client = new Predis\Client([$server], ['cluster' => 'redis']);
    if (($settings['route'] ?? '') === 'handler') {
        $strategy = $client->getConnection()->getClusterStrategy();
        foreach (['PUSH', 'GIDPUSH', 'POLL', 'LEN'] as $name) {
            $strategy->setCommandHandler("DEHYDRATOR.$name", fn ($command) => $command->getArgument(0));
        }
    }
} else {
    $client = new Predis\Client($server);
}
echo 'ready ', Predis\Client::VERSION, "\n";
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', rtrim($line, "\n"));
    try {
        $reply = $client->executeRaw($words, $isError);
        echo $isError ? "error $reply" : 'ok ' . json_encode($reply), "\n";
    } catch (Exception $error) {
        echo 'error ', get_class($error), ' ', strtr($error->getMessage(), "\n", ' '), "\n";
    }
}
