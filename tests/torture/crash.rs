//! kill -9 in the middle of a load.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Connection, RedisResult, Value};

use harness::{Ask, Server, cmd, until};

const ROUNDS: usize = 20;
const CLIENTS: usize = 3;
/// Commands that are sent before the first reply is read.
const PIPELINE: usize = 50;
/// The empty name is no group.
const GROUPS: [&str; 4] = ["", "a", "b", "c"];

/// The acknowledged operations, and those in flight when the server was killed.
#[derive(Default)]
struct Books {
    pushed: HashSet<String>,
    taken: HashSet<String>,
    unsure: HashSet<String>,
}

/// Pushes and takes in pipelines until the server is gone. Reads replies one by one, so that it is known what was
/// acknowledged before the end.
fn work(mut client: Connection, name: &str, books: &Mutex<Books>) -> RedisResult<()> {
    for batch in 0.. {
        let id = |number| format!("{name}-{batch}-{number}");
        let mut packed = Vec::new();
        for number in 0..PIPELINE {
            let mut push = redis::cmd("DEHYDRATOR.PUSH");
            push.arg("k").arg(600_000).arg("element").arg(id(number));
            push.arg("GROUP").arg(GROUPS[number % GROUPS.len()]);
            packed.extend(push.get_packed_command());
        }
        for number in (0..PIPELINE).step_by(3) {
            let pull = redis::cmd("DEHYDRATOR.PULL").arg("k").arg(id(number)).get_packed_command();
            packed.extend(pull);
        }
        let mut ours = Books { unsure: (0..PIPELINE).map(id).collect(), ..Books::default() };
        let mut exchange = || -> RedisResult<()> {
            client.send_packed_command(&packed)?;
            for number in 0..PIPELINE {
                assert_eq!(client.recv_response()?, Value::Okay);
                ours.pushed.insert(id(number));
            }
            for number in (0..PIPELINE).step_by(3) {
                assert_eq!(client.recv_response()?, Value::BulkString(b"element".into()));
                ours.taken.insert(id(number));
            }
            ours.unsure.clear();
            Ok(())
        };
        let outcome = exchange();
        let mut books = books.lock().expect("no panic");
        // A pushed element with a pull in flight may exist or not; a pulled one does not exist, and one without a pull
        // does.
        for number in 0..PIPELINE {
            let will_be_pulled = number % 3 == 0;
            if ours.pushed.contains(&id(number))
                && (!will_be_pulled || ours.taken.contains(&id(number)))
            {
                ours.unsure.remove(&id(number));
            }
        }
        books.pushed.extend(ours.pushed);
        books.taken.extend(ours.taken);
        books.unsure.extend(ours.unsure);
        outcome?;
    }
    Ok(())
}

#[test]
fn killed_twenty_times_under_load_it_has_everything_acknowledged() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let books = Mutex::new(Books::default());
    for round in 0..ROUNDS {
        let before = books.lock().expect("no panic").pushed.len();
        std::thread::scope(|scope| {
            for worker in 0..CLIENTS {
                let (client, books) = (server.connect(), &books);
                let name = format!("{round}-{worker}");
                scope.spawn(move || work(client, &name, books).expect_err("it is killed"));
            }
            until("there is a load", || {
                let enough = before + 500 + 300 * (round % 5);
                (books.lock().expect("no panic").pushed.len() > enough).then_some(())
            });
            server.kill();
        });
        server.relaunch();
        let books = books.lock().expect("no panic");
        let mut client = server.connect();
        let mut ids: Vec<_> = books.pushed.iter().collect();
        ids.sort_unstable();
        let lengths = GROUPS.map(|group| format!("DEHYDRATOR.LEN k GROUP {group}"));
        let lengths = lengths.map(|len| cmd(&len).query::<u64>(&mut client).expect("a number"));
        assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(lengths.iter().sum::<u64>() as i64));
        assert!(lengths.iter().all(|length| *length > 0), "{lengths:?}");
        for chunk in ids.chunks(1000) {
            let mut pipe = redis::pipe();
            for id in chunk {
                pipe.cmd("DEHYDRATOR.LOOK").arg("k").arg(id);
            }
            let found: Vec<Value> = pipe.query(&mut client).expect("replies");
            for (id, found) in chunk.iter().zip(found) {
                if !books.unsure.contains(*id) {
                    let is_there = found != Value::Nil;
                    assert_eq!(is_there, !books.taken.contains(*id), "round {round}: {id}");
                }
            }
        }
    }
    let books = books.into_inner().expect("no panic");
    assert!(books.taken.len() > 1000 && books.unsure.len() < books.pushed.len() / 4);
}

#[test]
fn killed_during_polls_it_delivers_nothing_acknowledged_as_taken() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let taken = Mutex::new(HashSet::new());
    let mut count = 0;
    for _ in 0..ROUNDS / 2 {
        let mut client = server.connect();
        let mut pipe = redis::pipe();
        for _ in 0..5000 {
            count += 1;
            let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg(count).arg(count);
            push.arg("GROUP").arg(GROUPS[count % GROUPS.len()]);
        }
        pipe.exec(&mut client).expect("pushes");
        let is_killed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A few at a time, so that some are left when the server is killed.
                loop {
                    let Ok(ids) =
                        redis::cmd("DEHYDRATOR.XPOLL").arg("k").query::<Vec<u64>>(&mut client)
                    else {
                        break;
                    };
                    let Some(ids) = ids.get(..20) else { break };
                    let mut xack = redis::cmd("DEHYDRATOR.XACK");
                    let Ok(elements) = xack.arg("k").arg(ids).query::<Vec<u64>>(&mut client) else {
                        break;
                    };
                    let mut taken = taken.lock().expect("no panic");
                    for element in elements {
                        assert!(taken.insert(element), "{element} was delivered twice");
                    }
                }
                assert!(is_killed.load(Ordering::Relaxed), "it was polled empty before");
            });
            let before = taken.lock().expect("no panic").len();
            until("there is a load", || {
                (taken.lock().expect("no panic").len() > before + 300).then_some(())
            });
            is_killed.store(true, Ordering::Relaxed);
            server.kill();
        });
        server.relaunch();
        let ids: Vec<u64> =
            redis::cmd("DEHYDRATOR.XPOLL").arg("k").query(&mut server.connect()).expect("ids");
        let taken = taken.lock().expect("no panic");
        assert!(ids.iter().all(|id| !taken.contains(id)), "something taken is there again");
        // Missing elements that were not taken were in flight: one batch per round.
        assert!(ids.len() + taken.len() + 20 * ROUNDS >= count, "something vanished");
        drop(taken);
        server.connect().ask("PING");
    }
}
