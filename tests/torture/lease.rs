//! Consumers that die during work or are slower than their leases, and a server that is killed as well.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Connection, RedisResult, Value};

use harness::{Ask, Server, until};

const ELEMENTS: usize = 3000;
const ROUNDS: usize = 8;
/// Milliseconds: short, so that the elements of a dead consumer come back soon.
const LEASE: u64 = 100;

/// What consumers know together, and none alone.
#[derive(Default)]
struct Known {
    /// The delivery of each element that was settled.
    settled: Mutex<HashMap<String, u64>>,
    /// The last delivery of each element that reached a consumer.
    handed_out: Mutex<HashMap<String, u64>>,
    deliveries: AtomicUsize,
    /// The number of late SETTLEs.
    fenced: AtomicUsize,
}

/// Returns whether the lease of an element has expired, by the server's clock, or another consumer has it.
fn is_over(client: &mut Connection, id: &str, deliveries: u64) -> RedisResult<bool> {
    let look = redis::cmd("DEHYDRATOR.LOOK").arg("k").arg(id).arg("FULL").query(client)?;
    let Value::Array(fields) = look else { return Ok(true) };
    let field = |name: &str| {
        let at = fields.iter().position(|it| *it == Value::BulkString(name.into()));
        fields[at.unwrap_or_else(|| panic!("no {name} in {fields:?}")) + 1].clone()
    };
    Ok(field("leased") == Value::Int(0) || field("deliveries") != Value::Int(deliveries as i64))
}

/// Leases work and settles some of it; from time to time, it dies with the rest.
fn consume(mut client: Connection, known: &Known, name: &str, lifetime: usize) -> RedisResult<()> {
    let mut has_dawdled = false;
    for turn in 0.. {
        let token = format!("{name}-{turn}");
        let mut poll = redis::cmd("DEHYDRATOR.POLL");
        poll.arg("k").arg("COUNT").arg(10).arg("LEASE").arg(LEASE).arg("BLOCK").arg(50);
        // Half of them choose their tokens.
        let chooses = name.len().is_multiple_of(2);
        if chooses {
            poll.arg("TOKEN").arg(&token);
        }
        type Work = Option<Vec<(String, String, u64, String)>>;
        let work: Work = poll.query(&mut client)?;
        let work = work.unwrap_or_default();
        known.deliveries.fetch_add(work.len(), Ordering::Relaxed);
        {
            let mut handed_out = known.handed_out.lock().expect("no panic");
            for (id, _, deliveries, _) in &work {
                let last = handed_out.entry(id.clone()).or_default();
                *last = (*last).max(*deliveries);
            }
        }
        if turn == lifetime {
            return Ok(());
        }
        // It works longer than its lease; one of them until another consumer has its element.
        if let Some((id, _, deliveries, _)) = work.first() {
            if name == "last-0" && !has_dawdled {
                has_dawdled = true;
                until("another one has it", || {
                    let handed_out = known.handed_out.lock().expect("no panic");
                    (handed_out[id] > *deliveries).then_some(())
                });
            } else if turn % 5 == 3 {
                until("the lease is over", || {
                    is_over(&mut client, id, *deliveries).map(|it| it.then_some(())).transpose()
                })?;
            }
        }
        // Half of them one by one, and the rest in one command.
        let (one_by_one, rest) = work.split_at(work.len() / 2);
        for work in one_by_one.chunks(1).chain([rest]).filter(|work| !work.is_empty()) {
            let mut settle = redis::cmd("DEHYDRATOR.SETTLE");
            settle.arg("k");
            for (id, element, deliveries, drawn) in work {
                assert_eq!(*element, format!("element-{id}"));
                assert!(*deliveries > 0);
                settle.arg(if chooses { &token } else { drawn }).arg(id);
            }
            let replies: Vec<u64> = settle.query(&mut client)?;
            for ((id, _, deliveries, _), settled) in work.iter().zip(replies) {
                if settled == 1 {
                    let mut settled = known.settled.lock().expect("no panic");
                    let before = settled.insert(id.clone(), *deliveries);
                    assert_eq!(before, None, "{id} is settled twice");
                } else {
                    known.fenced.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn with_consumers_and_the_server_killed_everything_is_settled_once_by_its_last_holder() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut pipe = redis::pipe();
    for id in 0..ELEMENTS {
        let ttl = id % 200;
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(format!("element-{id}"));
        // Some are in no group.
        push.arg(id).arg("GROUP").arg(["", "a", "b", "c"][id % 7 % 4]);
    }
    pipe.exec(&mut server.connect()).expect("pushes");
    let known = Known::default();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for consumer in 0..6 {
                let (client, known) = (server.connect(), &known);
                let name = format!("{round}-{consumer}{}", "x".repeat(consumer % 2));
                scope.spawn(move || {
                    // Dead or cut off: either way, it is gone.
                    let _ = consume(client, known, &name, 2 + (round + consumer) % 5);
                });
            }
            if round < ROUNDS - 1 {
                let before = known.deliveries.load(Ordering::Relaxed);
                until("there is a load", || {
                    (known.deliveries.load(Ordering::Relaxed) > before + 30).then_some(())
                });
                server.kill();
            }
        });
        if round < ROUNDS - 1 {
            server.relaunch();
        }
    }
    // The last consumers live until nothing is left. The first of them has an element before the others start.
    let more = format!("DEHYDRATOR.PUSH k 0 element-{ELEMENTS} {ELEMENTS}");
    server.connect().ask(&more);
    std::thread::scope(|scope| {
        for consumer in 0..4 {
            let (client, known) = (server.connect(), &known);
            let name = format!("last-{consumer}{}", "x".repeat(consumer % 2));
            let before = known.deliveries.load(Ordering::Relaxed);
            scope.spawn(move || consume(client, known, &name, usize::MAX));
            until("the first one has something", || {
                let has = known.deliveries.load(Ordering::Relaxed) > before;
                (has || consumer > 0).then_some(())
            });
        }
        let mut watch = server.connect();
        until("all is settled", || (!watch.exists("k")).then_some(()));
        server.kill();
    });
    let settled = known.settled.into_inner().expect("no panic");
    let handed_out = known.handed_out.into_inner().expect("no panic");
    // Only the server knows of a SETTLE that was executed but not acknowledged.
    let unsure = 10 * (6 * ROUNDS + 4);
    assert!(settled.len() + unsure >= ELEMENTS, "{} of {ELEMENTS} settled", settled.len());
    // The consumer that settled an element was the last one that had it.
    for (id, delivery) in &settled {
        assert_eq!(handed_out[id], *delivery, "{id} was settled by somebody who had it no more");
    }
    let (deliveries, fenced) = (known.deliveries.into_inner(), known.fenced.into_inner());
    println!("{deliveries} deliveries, {} settled, {fenced} times too late", settled.len());
    assert!(deliveries > ELEMENTS, "no consumer died with work in hand");
    assert!(fenced > 0, "no consumer came too late");
}
