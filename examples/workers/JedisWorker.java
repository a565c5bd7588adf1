// A worker with Jedis 7. README.md describes it. Replace work.
import java.net.URI;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.IOUtils;
import redis.clients.jedis.util.SafeEncoder;

public final class JedisWorker {
    static final String QUEUE = setting("QUEUE", "{jobs}"), DELIVERIES = setting("DELIVERIES", "5");
    static final String BLOCK_MS = setting("BLOCK_MS", "5000"), LEASE_MS = setting("LEASE_MS", "60000");
    static final long RETRY_MS = Long.parseLong(setting("RETRY_MS", "1000"));
    static final URI URL = URI.create(setting("REDIS_URL", "redis://127.0.0.1:6379"));
    static final String PASSING = "(BUSY|LOADING|READONLY|UNBLOCKED|NOREPLICAS|MISCONF)\\b.*";
    static final JedisWorker SERVER = new JedisWorker(), STORE = new JedisWorker();
    static volatile boolean stopping, stopped;
    Jedis connection;

    /** Interrupted when the lease is lost. */
    static Void work(String id, String job, long deliveries) throws Exception {
        String[] words = (job + " 0").split(" ");
        if (words[0].equals("slow")) {
            Thread.sleep(Long.parseLong(words[1]));
        }
        if (words[0].equals("fail") && deliveries <= Long.parseLong(words[1])) {
            throw new Exception("it was to fail");
        }
        String done = id + " " + deliveries + " " + System.currentTimeMillis();
        STORE.ask("SADD", QUEUE + ":done", done);
        return null;
    }

    static String setting(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    Object ask(String verb, String... words) throws InterruptedException {
        for (long pause = 100; ; pause = Math.min(2 * pause, 2000)) {
            try {
                if (connection == null) {
                    connection = new Jedis(URL, 5000, Integer.parseInt(BLOCK_MS) + 5000);
                }
                return SafeEncoder.encodeObject(connection.sendCommand(verb::getBytes, words));
            } catch (JedisException error) {
                if (error instanceof JedisDataException && !error.getMessage().matches(PASSING)) {
                    throw error;
                }
                IOUtils.closeQuietly(connection);
                connection = null;
                if (stopping && verb.equals("DEHYDRATOR.POLL")) {
                    return null;
                }
                System.out.println(verb + " again: " + error.getMessage());
                Thread.sleep(pause);
            }
        }
    }

    static void handle(String token, String id, String job, long deliveries) throws Exception {
        FutureTask<Void> working = new FutureTask<>(() -> work(id, job, deliveries));
        Thread thread = new Thread(working);
        thread.setDaemon(true);
        thread.start();
        while (true) {
            try {
                working.get(Long.parseLong(LEASE_MS) / 3, TimeUnit.MILLISECONDS);
                SERVER.ask("DEHYDRATOR.SETTLE", QUEUE, token, id);
                return;
            } catch (TimeoutException itGoesOn) {
                if (SERVER.ask("DEHYDRATOR.RENEW", QUEUE, LEASE_MS, token, id).equals(List.of(0L))) {
                    working.cancel(true);
                }
            } catch (ExecutionException | CancellationException error) {
                System.out.println(id + " failed: " + error);
                SERVER.ask("DEHYDRATOR.RELEASE", QUEUE, "" + (RETRY_MS << (deliveries - 1)), token, id);
                return;
            }
        }
    }

    /** Without this hook, the JVM would exit on SIGTERM without waiting, and with a status other than 0. */
    static void stop(Thread main) {
        stopping = true;
        while (main.isAlive()) {
            LockSupport.parkNanos(10_000_000);
        }
        Runtime.getRuntime().halt(stopped ? 0 : 1);
    }

    public static void main(String[] arguments) throws Exception {
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(main)));
        SERVER.ask("DEHYDRATOR.ONDUE", QUEUE, "HOLD", "DELIVERIES", DELIVERIES, "STREAM", QUEUE + ":dead");
        while (!stopping) {
            String token = UUID.randomUUID().toString();
            Object elements = SERVER.ask("DEHYDRATOR.POLL", QUEUE, "COUNT", "1", "BLOCK", BLOCK_MS,
                    "LEASE", LEASE_MS, "TOKEN", token);
            for (Object element : elements == null ? List.of() : (List<?>) elements) {
                List<?> it = (List<?>) element;
                handle(token, (String) it.get(0), (String) it.get(1), (Long) it.get(2));
            }
        }
        stopped = true;
    }
}
