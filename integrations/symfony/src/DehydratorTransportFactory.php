<?php

declare(strict_types=1);

namespace Dehydrator\Messenger;

use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** Makes transports for `dehydrator://[user:password@]host[:port]/[queue]?option=value`. */
class DehydratorTransportFactory implements TransportFactoryInterface
{
    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        return new DehydratorTransport(Connection::of($dsn, $options), $serializer);
    }

    public function supports(string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'dehydrator://') || str_starts_with($dsn, 'dehydrators://');
    }
}
