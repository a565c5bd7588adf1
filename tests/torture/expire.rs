//! A mass of elements expires at one moment, while workers take elements and others push.
//!
//! DEHYDRATOR_EXPIRING sets how many.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, setting, until};

const EXPIRING: u64 = 300_000;
/// Elements pushed at a time.
const BATCH: u64 = 10_000;
const WORKERS: usize = 3;
/// The producer waits while this many of its elements wait: it is faster than the workers.
const LIVE_MAX: usize = 60;

/// Returns the server's time in milliseconds since the epoch.
fn now(client: &mut Connection) -> u64 {
    let [seconds, us]: [u64; 2] = cmd("TIME").query(client).expect("the time");
    seconds * 1000 + us / 1000
}

/// Takes elements until `is_over`, and counts the live ones. Returns the ids, each with the server's time before the request.
fn work(server: &Server, is_over: &AtomicBool, taken: &AtomicUsize) -> Vec<(String, u64)> {
    let mut client = server.connect();
    let mut given = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let asked = now(&mut client);
        let rows: Vec<(String, String)> =
            cmd("DEHYDRATOR.POLL k COUNT 1 WITHIDS").query(&mut client).expect("rows");
        let live = rows.iter().filter(|(id, _)| id.starts_with("live")).count();
        taken.fetch_add(live, Ordering::Relaxed);
        given.extend(rows.into_iter().map(|(id, _)| (id, asked)));
    }
    given
}

/// Returns the ids of the dead letters, which all have expired.
fn dead(client: &mut Connection) -> Vec<String> {
    let (mut ids, mut from) = (Vec::new(), "-".to_owned());
    loop {
        let entries: Vec<(String, [String; 8])> =
            cmd(&format!("XRANGE s {from} + COUNT 10000")).query(client).expect("a stream");
        let Some((last, _)) = entries.last() else { return ids };
        from = format!("({last}");
        ids.extend(entries.into_iter().map(|(_, fields)| {
            assert_eq!((&fields[5][..], &fields[7][..]), ("0", "expired"));
            fields[1].clone()
        }));
    }
}

/// Pushes elements that come due within a second after `due`, and expire at `end`.
fn push(client: &mut Connection, key: &str, ids: Range<u64>, due: u64, end: u64) {
    let mut pipe = redis::pipe();
    for id in ids {
        let at = due + id % 1000;
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(id % 8).arg(id).arg(id);
        push.arg("AT").arg(at).arg("WITHIN").arg(end - at).ignore();
    }
    pipe.exec(client).expect("replies");
}

#[test]
fn of_a_mass_that_expires_nothing_is_given_out_later_and_each_is_one_dead_letter() {
    let count = setting("DEHYDRATOR_EXPIRING", EXPIRING);
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 9 STREAM s");
    let began = now(&mut client);
    push(&mut client, "trial", 0..BATCH, began, began + 60_000);
    let taken_by_a_batch = now(&mut client) - began;
    client.ask("DEL trial");
    // They come due while they are pushed, and expire together when all are there, however busy the machine is.
    let due = now(&mut client);
    let end = due + 1000 + (count / 40).max(3 * taken_by_a_batch * count / BATCH);
    for first in (0..count).step_by(BATCH as usize) {
        push(&mut client, "k", first..(first + BATCH).min(count), due, end);
    }
    assert!(now(&mut client) < end, "this machine is too slow for {count}");
    let (is_over, taken) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (given, live) = thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS).map(|_| scope.spawn(|| work(&server, &is_over, &taken))).collect();
        // Others go on.
        let mut live = 0;
        loop {
            let mut pipe = redis::pipe();
            let waiting = live - taken.load(Ordering::Relaxed);
            for _ in 0..if waiting < LIVE_MAX { 20 } else { 0 } {
                live += 1;
                pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(5).arg("live").arg(format!("live-{live}"));
                pipe.ignore();
            }
            if waiting < LIVE_MAX {
                pipe.exec(&mut client).expect("replies");
            }
            let is_after = now(&mut client) > end;
            let left: Option<u64> = is_after.then(|| {
                let Value::Int(left) = client.ask("DEHYDRATOR.LEN k") else { panic!("a number") };
                left as u64
            });
            let late = now(&mut client).saturating_sub(end);
            if left.is_some_and(|left| left < 100) {
                println!("they were all gone {late} ms after they expired");
                break;
            }
            assert!(late < 60_000 + count / 10, "{left:?} are left after {late} ms");
        }
        until("the live ones too", || {
            (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
        let all = workers.into_iter().flat_map(|worker| worker.join().expect("a worker"));
        (all.collect::<Vec<_>>(), live)
    });
    let mut ids = HashSet::new();
    for (id, asked) in given {
        assert!(
            asked < end || id.starts_with("live"),
            "{id} was given out {} ms late",
            asked - end
        );
        assert!(ids.insert(id), "given out twice");
    }
    let taken = ids.iter().filter(|id| !id.starts_with("live")).count();
    assert_eq!(ids.len() - taken, live, "each live one was given out");
    let dead = dead(&mut client);
    println!("{count} elements: {taken} taken in time, {} expired, {live} live", dead.len());
    assert!(dead.len() as u64 > count / 10, "hardly any expired");
    for id in dead {
        assert!(ids.insert(id), "dead twice, or given out too");
    }
    assert_eq!(ids.len() as u64, count + live as u64);
    assert_eq!(server.info("dehydrator", "dehydrator_expired"), count - taken as u64);
}
