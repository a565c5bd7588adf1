//! Session timeouts: a session ends when its user has not been heard of for a while.
//!
//! A session is an element whose timer each sign of life starts anew (TOUCH). What comes due has
//! expired: a cleaner that sleeps in the server (POLL with BLOCK) gets it, with what is needed to clean up.
//! As the expired session is taken out at once, a late sign of life finds nothing, and is told so.
//!
//! Prints:
//!
//!     bert has left: give up basket 2
//!     anna has left: give up basket 1
//!     anna, please log in again

use std::time::{Duration, Instant};
use std::{env, thread};

use redis::{Connection, RedisResult};

const KEY: &str = "demo:sessions";
const TIMEOUT: Duration = Duration::from_millis(800);
const BLOCK: Duration = Duration::from_secs(10);

fn connect() -> RedisResult<Connection> {
    let url = env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let connection = redis::Client::open(url)?.get_connection()?;
    // Without this line a read waits for ever. (With redis-rs's asynchronous connections it is half a
    // second, unless set_response_timeout says otherwise.) It must be longer than the block.
    connection.set_read_timeout(Some(BLOCK + Duration::from_secs(5)))?;
    Ok(connection)
}

fn log_in(server: &mut Connection, user: &str, session: &str) -> RedisResult<()> {
    let ttl = TIMEOUT.as_millis() as u64;
    redis::cmd("DEHYDRATOR.PUSH").arg(KEY).arg(ttl).arg(session).arg(user).query(server)
}

/// A sign of life. Whether there is such a session.
fn ping(server: &mut Connection, user: &str) -> RedisResult<bool> {
    let ttl = TIMEOUT.as_millis() as u64;
    redis::cmd("DEHYDRATOR.TOUCH").arg(KEY).arg(user).arg(ttl).query(server)
}

/// Sleeps until a session expires, or the block runs out. The users and sessions that have expired.
fn expired(server: &mut Connection) -> RedisResult<Vec<(String, String)>> {
    let block = BLOCK.as_millis() as u64;
    redis::cmd("DEHYDRATOR.POLL").arg(KEY).arg("BLOCK").arg(block).arg("WITHIDS").query(server)
}

fn main() -> RedisResult<()> {
    let mut server = connect()?;
    redis::cmd("DEL").arg(KEY).exec(&mut server)?;
    log_in(&mut server, "anna", "basket 1")?;
    log_in(&mut server, "bert", "basket 2")?;

    let cleaner = thread::spawn(|| -> RedisResult<Instant> {
        let mut server = connect()?;
        let mut left = 0;
        while left < 2 {
            for (user, session) in expired(&mut server)? {
                println!("{user} has left: give up {session}");
                left += 1;
            }
        }
        Ok(Instant::now())
    });

    // Anna is there for a while; bert is not heard of again.
    let mut last_ping = Instant::now();
    for _ in 0..3 {
        thread::sleep(TIMEOUT / 4);
        last_ping = Instant::now();
        assert!(ping(&mut server, "anna")?);
    }
    let anna_left = cleaner.join().expect("a cleaner")?;
    // The server counts whole milliseconds.
    assert!(anna_left - last_ping + Duration::from_millis(1) >= TIMEOUT, "expired too early");
    if !ping(&mut server, "anna")? {
        println!("anna, please log in again");
    }
    Ok(())
}
