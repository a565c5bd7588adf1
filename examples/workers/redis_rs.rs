//! A worker with redis-rs 1. README.md describes it. Replace `work`.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError::Timeout, channel};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};
use std::{env, thread};

use redis::{Client, Connection, FromRedisValue, RedisResult};
use signal_hook::consts::{SIGINT, SIGTERM};

type Link = Option<Connection>;
/// Id, element, deliveries, token.
type Element = (String, String, u32, String);
type Outcome = Result<(), Box<dyn Error + Send + Sync>>;
const PASSING: [&str; 6] = ["BUSY", "LOADING", "READONLY", "UNBLOCKED", "NOREPLICAS", "MISCONF"];
static STOPPING: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

fn work(id: &str, job: &str, deliveries: u32, lost: &Receiver<()>, store: &mut Link) -> Outcome {
    let (word, number) = job.split_once(' ').unwrap_or((job, "0"));
    if word == "slow" && lost.recv_timeout(Duration::from_millis(number.parse()?)).is_ok() {
        return Err("the lease is lost".into());
    }
    if word == "fail" && deliveries <= number.parse()? {
        return Err("it was to fail".into());
    }
    let done = format!("{id} {deliveries} {}", SystemTime::UNIX_EPOCH.elapsed()?.as_millis());
    ask::<()>(store, &["SADD", &(setting::<String>("QUEUE", "{jobs}") + ":done"), &done]);
    Ok(())
}

fn setting<T: FromStr>(name: &str, otherwise: &str) -> T {
    env::var(name).unwrap_or(otherwise.to_owned()).parse().ok().expect(name)
}

fn connect() -> RedisResult<Connection> {
    let client = Client::open(setting::<String>("REDIS_URL", "redis://127.0.0.1:6379"))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
    let block: u64 = setting("BLOCK_MS", "5000");
    connection.set_read_timeout(Some(Duration::from_millis(block + 5000)))?;
    Ok(connection)
}

fn ask<T: FromRedisValue + Default>(connection: &mut Link, words: &[&str]) -> T {
    let mut pause = Duration::from_millis(100);
    let command = redis::cmd(words[0]).arg(&words[1..]).take();
    loop {
        let opened = connection.take().map_or_else(connect, Ok);
        let error = match opened.and_then(|mut open| Ok((command.query(&mut open)?, open))) {
            Ok((reply, open)) => {
                *connection = Some(open);
                return reply;
            }
            Err(error) => error,
        };
        assert!(error.code().is_none_or(|code| PASSING.contains(&code)), "{}: {error}", words[0]);
        if STOPPING.load(Relaxed) && words[0] == "DEHYDRATOR.POLL" {
            return T::default();
        }
        println!("{} again: {error}", words[0]);
        thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_secs(2));
    }
}

fn main() {
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, STOPPING.clone()).expect("a handler");
    }
    let queue: String = setting("QUEUE", "{jobs}");
    let (block, most): (String, String) = (setting("BLOCK_MS", "5000"), setting("DELIVERIES", "5"));
    let (lease_ms, retry_ms): (u64, u64) =
        (setting("LEASE_MS", "60000"), setting("RETRY_MS", "1000"));
    let (lease, dead) = (lease_ms.to_string(), format!("{queue}:dead"));
    let (mut server, mut store) = (Link::None, Link::None);
    let limit = ["DEHYDRATOR.ONDUE", &queue, "HOLD", "DELIVERIES", &most, "STREAM", &dead];
    ask::<()>(&mut server, &limit);
    while !STOPPING.load(Relaxed) {
        // Any word that was not used before.
        let token = format!("{:x}", RandomState::new().hash_one(SystemTime::now()));
        let options = ["COUNT", "1", "BLOCK", &block, "LEASE", &lease, "TOKEN", &token];
        let poll = [&["DEHYDRATOR.POLL", &queue], &options[..]].concat();
        for (id, job, deliveries, _) in ask::<Vec<Element>>(&mut server, &poll) {
            let ((lose, lost), (end, ended)) = (channel(), channel());
            let (id, job, store) = (&id, &job, &mut store);
            thread::scope(|scope| {
                scope.spawn(move || end.send(work(id, job, deliveries, &lost, store)));
                let renew = ["DEHYDRATOR.RENEW", &queue, &lease, &token, id];
                let mut outcome = ended.recv_timeout(Duration::from_millis(lease_ms / 3));
                while let Err(Timeout) = outcome {
                    if ask::<Vec<u8>>(&mut server, &renew) == [0] {
                        let _ = lose.send(());
                    }
                    outcome = ended.recv_timeout(Duration::from_millis(lease_ms / 3));
                }
                if let Err(error) = outcome.expect("the work does not panic") {
                    println!("{id} failed: {error}");
                    let later = (retry_ms << (deliveries - 1)).to_string();
                    ask::<()>(&mut server, &["DEHYDRATOR.RELEASE", &queue, &later, &token, id]);
                } else {
                    ask::<()>(&mut server, &["DEHYDRATOR.SETTLE", &queue, &token, id]);
                }
            });
        }
    }
}
