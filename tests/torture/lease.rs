//! Consumers that die with elements in hand, and a server that is killed as well.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use redis::{Connection, RedisResult};

use crate::harness::{Ask, Server, until};

const ELEMENTS: usize = 3000;
const ROUNDS: usize = 8;
/// Milliseconds: short, so that what a dead consumer held comes back soon.
const LEASE: usize = 100;

/// Takes work under a lease and settles some of it; every now and then it dies with the rest in hand.
fn consume(
    mut client: Connection,
    settled: &Mutex<HashSet<String>>,
    handed_out: &AtomicUsize,
    lifetime: usize,
) -> RedisResult<()> {
    for turn in 0.. {
        let mut poll = redis::cmd("DEHYDRATOR.POLL");
        poll.arg("k").arg("COUNT").arg(10).arg("LEASE").arg(LEASE).arg("BLOCK").arg(50);
        let work: Option<Vec<(String, String, u64)>> = poll.query(&mut client)?;
        let work = work.unwrap_or_default();
        handed_out.fetch_add(work.len(), Ordering::Relaxed);
        if turn == lifetime {
            return Ok(());
        }
        for (id, element, deliveries) in work {
            assert_eq!(element, format!("element-{id}"));
            assert!(deliveries > 0);
            let settle: Vec<Option<String>> =
                redis::cmd("DEHYDRATOR.XACK").arg("k").arg(&id).query(&mut client)?;
            if settle[0].is_some() {
                settled.lock().expect("no panic").insert(id);
            }
        }
    }
    Ok(())
}

#[test]
fn with_consumers_and_the_server_killed_everything_is_settled_and_nothing_vanishes() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut pipe = redis::pipe();
    for id in 0..ELEMENTS {
        let ttl = id % 200;
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(format!("element-{id}")).arg(id);
    }
    pipe.exec(&mut server.connect()).expect("pushes");
    let settled = Mutex::new(HashSet::new());
    let handed_out = AtomicUsize::new(0);
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for consumer in 0..6 {
                let (client, settled, handed_out) = (server.connect(), &settled, &handed_out);
                scope.spawn(move || {
                    // Dead or cut off: either way it is gone.
                    let _ = consume(client, settled, handed_out, 2 + (round + consumer) % 5);
                });
            }
            if round < ROUNDS - 1 {
                let before = handed_out.load(Ordering::Relaxed);
                until("there is a load", || {
                    (handed_out.load(Ordering::Relaxed) > before + 30).then_some(())
                });
                server.kill();
            }
        });
        if round < ROUNDS - 1 {
            server.relaunch();
        }
    }
    // The last consumers live until nothing is left.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (client, settled, handed_out) = (server.connect(), &settled, &handed_out);
            scope.spawn(move || consume(client, settled, handed_out, usize::MAX));
        }
        let mut watch = server.connect();
        until("all is settled", || (!watch.exists("k")).then_some(()));
        server.kill();
    });
    let settled = settled.into_inner().expect("no panic");
    let handed_out = handed_out.into_inner();
    // A settlement that was carried out but not acknowledged is known to the server alone.
    assert!(settled.len() + 6 * ROUNDS + 4 >= ELEMENTS, "{} of {ELEMENTS} settled", settled.len());
    assert!(
        handed_out > ELEMENTS,
        "nothing was given out again: no consumer died with work in hand"
    );
}
