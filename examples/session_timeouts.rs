//! Session timeouts: a session ends when its user has been silent for a while.
//!
//! A session is an element. Each request restarts its timer (TOUCH). An element that comes due is an expired session:
//! a cleaner that blocks in the server (POLL with BLOCK) gets it, with the data needed to clean up. POLL removes the
//! session, so a late request finds none.
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
    // Without this line, a read waits forever. (With the asynchronous connections of redis-rs, it waits for half a
    // second, unless set_response_timeout changes that.) It must be longer than the block.
    connection.set_read_timeout(Some(BLOCK + Duration::from_secs(5)))?;
    Ok(connection)
}

fn log_in(server: &mut Connection, user: &str, session: &str) -> RedisResult<()> {
    let ttl = TIMEOUT.as_millis() as u64;
    redis::cmd("DEHYDRATOR.PUSH").arg(KEY).arg(ttl).arg(session).arg(user).query(server)
}

/// Restarts the timer of a session. Returns whether the session exists.
fn ping(server: &mut Connection, user: &str) -> RedisResult<bool> {
    let ttl = TIMEOUT.as_millis() as u64;
    redis::cmd("DEHYDRATOR.TOUCH").arg(KEY).arg(ttl).arg(user).query(server)
}

/// Blocks until a session expires, or for BLOCK. Returns the expired users and sessions.
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

    // Anna is active for a while; bert is silent.
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
