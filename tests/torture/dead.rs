//! Work that fails, consumers that die with it in hand under leases that are fenced, and a server that is killed as
//! well: each element is settled once, or is a dead letter with its count.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redis::{Connection, RedisResult};

use crate::harness::{Ask, Server, cmd, until};

const ELEMENTS: usize = 3000;
const ROUNDS: usize = 8;
/// Milliseconds: short, so that what a dead consumer held comes back soon.
const LEASE: usize = 100;
/// So often an element is given out at the most.
const DELIVERIES: u64 = 4;

#[derive(Default)]
struct Seen {
    /// How often each element was seen to be given out.
    given: HashMap<String, Vec<u64>>,
    settled: HashMap<String, usize>,
    /// Settlements that were sent and not acknowledged.
    unknown: HashSet<String>,
}

/// Takes work under a lease. One element in five fails whoever tries it; one in three of the others fails the first
/// time.
fn consume(
    mut client: Connection,
    seen: &Mutex<Seen>,
    handed_out: &AtomicUsize,
    is_over: &AtomicBool,
    lifetime: usize,
) -> RedisResult<()> {
    for turn in 0.. {
        if is_over.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut poll = redis::cmd("DEHYDRATOR.POLL");
        poll.arg("k").arg("COUNT").arg(10).arg("LEASE").arg(LEASE).arg("BLOCK").arg(50);
        type Work = Option<Vec<(String, String, u64, String)>>;
        let work: Work = poll.query(&mut client)?;
        let work = work.unwrap_or_default();
        handed_out.fetch_add(work.len(), Ordering::Relaxed);
        for (id, element, deliveries, _) in &work {
            assert_eq!(*element, format!("element-{id}"));
            assert!(
                (1..=DELIVERIES).contains(deliveries),
                "{id} is given out the {deliveries}th time"
            );
            let mut seen = seen.lock().expect("no panic");
            seen.given.entry(id.clone()).or_default().push(*deliveries);
        }
        if turn == lifetime {
            return Ok(());
        }
        for (id, _, deliveries, token) in work {
            let number: usize = id.parse().expect("a number");
            if number.is_multiple_of(5) || number.is_multiple_of(3) && deliveries == 1 {
                // Given back at once, or forgotten.
                if number.is_multiple_of(2) {
                    let release = format!("DEHYDRATOR.RELEASE k 0 {token} {id}");
                    cmd(&release).query::<Vec<u64>>(&mut client)?;
                }
                continue;
            }
            seen.lock().expect("no panic").unknown.insert(id.clone());
            let settle = format!("DEHYDRATOR.SETTLE k {token} {id}");
            let settled: Vec<u64> = cmd(&settle).query(&mut client)?;
            let mut seen = seen.lock().expect("no panic");
            seen.unknown.remove(&id);
            if settled == [1] {
                *seen.settled.entry(id).or_default() += 1;
            }
        }
    }
    Ok(())
}

/// What is in the stream: how often each element was given out, by its id.
fn dead_letters(client: &mut Connection) -> Vec<(String, u64)> {
    let entries: Vec<(String, Vec<String>)> =
        cmd("XRANGE s - +").query(client).expect("a stream, or none yet");
    let row = |(_, fields): (String, Vec<String>)| {
        let [_, id, _, element, name, deliveries] = &fields[..] else { panic!("{fields:?}") };
        assert_eq!((element, name.as_str()), (&format!("element-{id}"), "deliveries"));
        (id.clone(), deliveries.parse().expect("a number"))
    };
    entries.into_iter().map(row).collect()
}

#[test]
fn each_element_is_settled_once_or_is_a_dead_letter_with_its_count() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut pipe = redis::pipe();
    pipe.cmd("DEHYDRATOR.ONDUE").arg("k").arg("HOLD").arg("DELIVERIES").arg(DELIVERIES);
    pipe.arg("STREAM").arg("s");
    for id in 0..ELEMENTS {
        let ttl = id % 200;
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(format!("element-{id}")).arg(id);
    }
    pipe.exec(&mut server.connect()).expect("pushes");
    let (seen, handed_out) = (Mutex::new(Seen::default()), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for consumer in 0..6 {
                let (client, seen, handed_out) = (server.connect(), &seen, &handed_out);
                let is_over = &is_over;
                scope.spawn(move || {
                    // Dead or cut off: either way it is gone.
                    let _ = consume(client, seen, handed_out, is_over, 2 + (round + consumer) % 5);
                });
            }
            let before = handed_out.load(Ordering::Relaxed);
            until("there is a load", || {
                (handed_out.load(Ordering::Relaxed) > before + 30).then_some(())
            });
            server.kill();
        });
        server.relaunch();
        // No element is in two places, or in none.
        let mut client = server.connect();
        let dead = dead_letters(&mut client);
        let ids: HashSet<&String> = dead.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), dead.len(), "round {round}: one died twice");
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (client, seen, handed_out) = (server.connect(), &seen, &handed_out);
            let is_over = &is_over;
            scope.spawn(move || consume(client, seen, handed_out, is_over, usize::MAX));
        }
        let mut watch = server.connect();
        until("all is settled or dead", || {
            (watch.ask("DEHYDRATOR.LEN k") == redis::Value::Int(0)).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let mut client = server.connect();
    let dead: HashMap<String, u64> = dead_letters(&mut client).into_iter().collect();
    let seen = seen.into_inner().expect("no panic");
    for id in (0..ELEMENTS).map(|id| id.to_string()) {
        let settled = seen.settled.get(&id).copied().unwrap_or(0);
        let given = seen.given.get(&id).cloned().unwrap_or_default();
        match dead.get(&id) {
            Some(deliveries) => {
                assert_eq!((settled, *deliveries), (0, DELIVERIES), "{id}: {given:?}");
            }
            // What the server did before it was killed, and could not say, it knows alone.
            None => assert!(
                settled == 1 || settled == 0 && seen.unknown.contains(&id),
                "{id} was settled {settled} times, and given out {given:?}"
            ),
        }
        // Each count was seen once: nobody has it twice at one time.
        let counts: HashSet<&u64> = given.iter().collect();
        assert_eq!(counts.len(), given.len(), "{id}: {given:?}");
    }
    assert!(dead.len() >= ELEMENTS / 5, "{} have died", dead.len());
    assert!(dead.len() < ELEMENTS / 2, "{} have died", dead.len());
}
