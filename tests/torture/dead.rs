//! Failing and rejected work, consumers that die with fenced leases, and a server that is killed as well: each element
//! is settled once, or is a dead letter with its count.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use redis::{Connection, RedisResult, Value, from_redis_value};

use harness::{Ask, Server, cmd, until};

/// Milliseconds: short, so that the elements of a dead consumer come back soon.
const LEASE: usize = 100;
/// The maximum number of deliveries of an element.
const DELIVERIES: u64 = 4;

#[derive(Default)]
struct Seen {
    /// How often each element was delivered, as far as was observed.
    given: HashMap<String, Vec<u64>>,
    settled: HashMap<String, usize>,
    /// Settlements that were sent and not acknowledged.
    unknown: HashSet<String>,
}

/// Returns whether this element can never succeed.
fn is_hopeless(number: usize) -> bool {
    number % 7 == 1
}

/// Leases work. One element in seven is rejected; one in five of the others always fails; one in three of the others
/// fails the first time.
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
                "{id} is delivered for the {deliveries}th time"
            );
            let mut seen = seen.lock().expect("no panic");
            seen.given.entry(id.clone()).or_default().push(*deliveries);
        }
        if turn == lifetime {
            return Ok(());
        }
        for (id, _, deliveries, token) in work {
            let number: usize = id.parse().expect("a number");
            if is_hopeless(number) {
                // A late consumer is told so.
                let reject = format!("DEHYDRATOR.REJECT k {token} {id}");
                cmd(&reject).query::<Vec<u64>>(&mut client)?;
                continue;
            }
            if number.is_multiple_of(5) || number.is_multiple_of(3) && deliveries == 1 {
                // Given back at once, or abandoned.
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

/// How often each dead letter was delivered, by id, if that is recorded.
type Dead = Vec<(String, Option<u64>)>;

/// A destination of dead letters.
struct Dest {
    route: &'static str,
    /// The command that reads it, and the parser of its reply.
    look: &'static str,
    read: fn(Value) -> Dead,
}

const LIST: Dest = Dest {
    route: "LIST s LEFT",
    look: "LRANGE s 0 -1",
    read: |reply| {
        let elements: Vec<String> = from_redis_value(reply).expect("a list, or none yet");
        let id = |it: String| it.strip_prefix("element-").expect("an element").to_owned();
        elements.into_iter().map(|element| (id(element), None)).collect()
    },
};

const STREAM: Dest = Dest {
    route: "STREAM s",
    look: "XRANGE s - +",
    read: |reply| {
        let entries: Vec<(String, Vec<String>)> =
            from_redis_value(reply).expect("a stream, or none yet");
        let row = |(_, fields): (String, Vec<String>)| {
            // Behind them is the group, if there is one.
            let [_, id, _, element, name, deliveries, group @ ..] = &fields[..] else {
                panic!("{fields:?}");
            };
            assert_eq!((element, name.as_str()), (&format!("element-{id}"), "deliveries"));
            assert!(group.first().is_none_or(|field| field == "group"), "{fields:?}");
            (id.clone(), Some(deliveries.parse().expect("a number")))
        };
        entries.into_iter().map(row).collect()
    },
};

impl Dest {
    /// Returns the waiting elements and the dead letters, at one moment.
    fn places(&self, client: &mut Connection) -> (HashSet<String>, Dead) {
        let mut look = redis::pipe();
        look.atomic().add_command(cmd("DEHYDRATOR.SCAN k 0 COUNT 1000000"));
        look.add_command(cmd(self.look));
        let ((_, waits), dead): ((u64, Vec<String>), Value) = look.query(client).expect("replies");
        let dead = (self.read)(dead);
        let ids: HashSet<&String> = dead.iter().map(|(id, _)| id).collect();
        assert_eq!(ids.len(), dead.len(), "one died twice");
        assert!(waits.iter().all(|id| !ids.contains(id)), "one has died, and waits");
        (waits.into_iter().collect(), dead)
    }
}

#[test]
fn each_element_is_settled_once_or_is_a_dead_letter_with_its_count() {
    each_is_in_one_place(&STREAM, 3000, 8, false);
}

#[test]
fn each_element_is_settled_once_or_is_once_in_the_list_of_dead_letters() {
    each_is_in_one_place(&LIST, 1200, 4, false);
}

#[test]
fn each_element_of_a_group_is_settled_once_or_is_a_dead_letter_with_its_count() {
    each_is_in_one_place(&STREAM, 1800, 6, true);
}

/// Runs consumers on this many elements, kills the server this often, and checks where each element is.
fn each_is_in_one_place(dest: &Dest, elements: usize, rounds: usize, has_groups: bool) {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut pipe = redis::pipe();
    pipe.cmd("DEHYDRATOR.ONDUE").arg("k").arg("HOLD").arg("DELIVERIES").arg(DELIVERIES);
    pipe.arg(dest.route.split(' ').collect::<Vec<_>>());
    for id in 0..elements {
        let ttl = id % 200;
        let push =
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(format!("element-{id}")).arg(id);
        if has_groups {
            push.arg("GROUP").arg(["", "a", "b", "c"][id % 11 % 4]);
        }
    }
    pipe.exec(&mut server.connect()).expect("pushes");
    let (seen, handed_out) = (Mutex::new(Seen::default()), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    for round in 0..rounds {
        std::thread::scope(|scope| {
            for consumer in 0..6 {
                let (client, seen, handed_out) = (server.connect(), &seen, &handed_out);
                let is_over = &is_over;
                scope.spawn(move || {
                    // Dead or cut off: either way, it is gone.
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
        let (waits, dead) = dest.places(&mut server.connect());
        let dead: HashSet<String> = dead.into_iter().map(|(id, _)| id).collect();
        let seen = seen.lock().expect("no panic");
        for id in (0..elements).map(|id| id.to_string()) {
            let is_settled = seen.settled.contains_key(&id);
            let is_here = waits.contains(&id) || dead.contains(&id);
            assert!(is_here || is_settled || seen.unknown.contains(&id), "{id} is lost");
            assert!(!is_here || !is_settled, "{id} is settled, and here");
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (client, seen, handed_out) = (server.connect(), &seen, &handed_out);
            let is_over = &is_over;
            scope.spawn(move || consume(client, seen, handed_out, is_over, usize::MAX));
        }
        let mut watch = server.connect();
        until("all is settled or dead", || {
            (watch.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(())
        });
        is_over.store(true, Ordering::Relaxed);
    });
    let (_, dead) = dest.places(&mut server.connect());
    let dead: HashMap<String, Option<u64>> = dead.into_iter().collect();
    let seen = seen.into_inner().expect("no panic");
    for number in 0..elements {
        let id = number.to_string();
        let settled = seen.settled.get(&id).copied().unwrap_or(0);
        let given = seen.given.get(&id).cloned().unwrap_or_default();
        match dead.get(&id) {
            Some(deliveries) => {
                let is_told = deliveries.is_none_or(|deliveries| {
                    deliveries == DELIVERIES || is_hopeless(number) && deliveries < DELIVERIES
                });
                assert!(is_told && settled == 0, "{id}: {deliveries:?}, {settled}, {given:?}");
            }
            // Only the server knows what it did before it was killed without replying.
            None => assert!(
                !is_hopeless(number) && settled == 1 || settled == 0 && seen.unknown.contains(&id),
                "{id} was settled {settled} times, and delivered {given:?}"
            ),
        }
        // Each count was seen once: no element was delivered to two consumers at a time.
        let counts: HashSet<&u64> = given.iter().collect();
        assert_eq!(counts.len(), given.len(), "{id}: {given:?}");
    }
    let hopeless = (0..elements).filter(|number| is_hopeless(*number)).count();
    assert!(dead.len() >= hopeless + elements / 6, "{} have died", dead.len());
    assert!(dead.len() < elements * 3 / 5, "{} have died", dead.len());
}
