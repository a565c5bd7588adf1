package redis.clients.jedis.exceptions;

public class JedisDataException extends JedisException {
    public JedisDataException(String message) {
        super(message);
    }
}
