package redis.clients.jedis;

import java.net.URI;
import redis.clients.jedis.commands.ProtocolCommand;

/** As much of Jedis 7 as the worker in examples/workers calls, so that the compiler can read it. It does nothing. */
public class Jedis implements AutoCloseable {
    public Jedis(URI uri, int connectionTimeoutMillis, int socketTimeoutMillis) {}

    public Object sendCommand(ProtocolCommand command, String... words) {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() {}
}
