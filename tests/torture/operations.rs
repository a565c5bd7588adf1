//! Random operations of every command, compared with a simple model, interleaved with everything that moves, saves,
//! loads, copies or kills.
//!
//! The model must be exact although the server's clock advances. So every time here is a number of *grains*, each of
//! which is far longer than a run: the real progress of the clock never makes anything due. Time passes when the clock
//! of the debug build is stepped, by whole grains.
//!
//! DEHYDRATOR_SEED repeats a run, DEHYDRATOR_OPERATIONS makes it longer or shorter.

mod compare;
mod cover;
mod draw;
mod look;
mod time;
mod words;

use std::collections::VecDeque;
use std::time::Instant;

use redis::{Connection, Value};

use crate::model::{BEHIND, Bytes, Delivered, Expect, GRAIN, Gone, Kept, Op, Policy, World};
use crate::random::{Random, seed};
use harness::{Ask, Server, cmd, setting, until};

use time::wall;
use words::{command, words_of};

const OPERATIONS: u64 = 20_000;
const KEYS: [&str; 5] = ["a", "b\0\r\n", "c", "", "e"];
const STREAMS: [&str; 2] = ["s1", "s2"];
const LISTS: [&str; 2] = ["l1", "l2"];
const CHANNEL: &str = "news";
/// The lines of the log that are shown for a failure.
const REMEMBERED: usize = 60;

struct Torture {
    random: Random,
    world: World,
    server: Server,
    replica: Server,
    client: Connection,
    subscriber: Connection,
    /// The database that the client has selected.
    selected: usize,
    /// When the run began on the server's clock, in milliseconds since the epoch: a whole number of grains.
    start: u64,
    began: Instant,
    /// How far the server's clock was set ahead then.
    ahead: u64,
    /// How far it was set since, in whole grains.
    offset: u64,
    done: VecDeque<String>,
    deliveries: usize,
    /// When the latest operation ended, in milliseconds since the epoch.
    acted: u64,
}

impl Drop for Torture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- what was done ---");
            self.done.iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

impl Torture {
    fn new(seed: u64) -> Self {
        let options = ["--appendonly", "yes", "--appendfsync", "no", "--hz", "500"];
        let server = Server::start_debug(&options);
        let replica = Server::start_debug(&["--repl-diskless-load", "swapdb"]);
        replica.follow(&server);
        // What is counted from the clock, and what is named, differ in their low bits too.
        let acted = wall();
        let start = acted.next_multiple_of(GRAIN);
        let mut torture = Self {
            random: Random::new(seed),
            world: World::default(),
            client: server.connect(),
            subscriber: server.connect(),
            server,
            replica,
            selected: 0,
            start,
            began: Instant::now(),
            ahead: start - acted,
            offset: 0,
            done: VecDeque::new(),
            deliveries: 0,
            acted,
        };
        torture.subscribe();
        // An element with a ttl in grains comes after one with the same deadline in grains.
        torture.let_clock_move();
        torture.set_clock();
        torture
    }

    fn subscribe(&mut self) {
        self.subscriber = self.server.connect();
        let subscribe = redis::cmd("SUBSCRIBE").arg(CHANNEL).get_packed_command();
        self.subscriber.send_packed_command(&subscribe).expect("sent");
        self.subscriber.recv_response().expect("subscribed");
    }

    fn note(&mut self, line: String) {
        self.done.push_back(line);
        if self.done.len() > REMEMBERED {
            self.done.pop_front();
        }
    }

    fn select(&mut self, db: usize) {
        if self.selected != db {
            self.client.ask(&format!("SELECT {db}"));
            self.selected = db;
        }
    }

    /// Runs one operation: alone, in a transaction, or in a script.
    fn step(&mut self) {
        let (db, key) = (self.random.below(2) as usize, self.random.pick(&KEYS));
        let op = self.op(db, key);
        self.let_clock_move();
        // A command that is not even queued aborts a transaction.
        let how = if matches!(op, Op::Nonsense(_)) { 2 } else { self.random.below(8) };
        // Lua has no integers beyond 2^53.
        let shows_large_numbers = matches!(
            op,
            Op::Look { full: true, .. } | Op::Range { .. } | Op::Info { .. } | Op::Pttl(_)
        );
        let how = if how == 1 && shows_large_numbers { 0 } else { how };
        let words = words_of(key, &op);
        let shown = words.iter().map(|word| word[..word.len().min(40)].escape_ascii());
        let shown: Vec<_> = shown.map(|word| format!("\"{word}\"")).collect();
        self.note(format!("[{db}] {} (way {how})", shown.join(" ")));
        self.select(db);
        let command = command(&words);
        let reply: Result<Value, redis::RedisError> = match how {
            0 => {
                let packed = [
                    redis::cmd("MULTI").get_packed_command(),
                    command.get_packed_command(),
                    redis::cmd("EXEC").get_packed_command(),
                ];
                self.client.send_packed_command(&packed.concat()).expect("sent");
                for word in ["MULTI", "queued"] {
                    self.client.recv_response().expect(word);
                }
                self.client.recv_response().and_then(|reply| match reply {
                    Value::Array(mut replies) => replies.remove(0).extract_error(),
                    other => panic!("{other:?}"),
                })
            }
            1 => {
                let mut eval = redis::cmd("EVAL");
                eval.arg("return redis.call(unpack(ARGV))").arg(0).arg(words);
                eval.query(&mut self.client)
            }
            _ => command.query(&mut self.client),
        };
        let now = self.now();
        let expected = self.world.apply(db, key, &op, now, how < 2);
        self.check(db, key, &op, reply, expected);
        if matches!(op, Op::Expire) {
            until("it has expired", || {
                let exists = redis::cmd("EXISTS").arg(key).query(&mut self.client);
                (exists == Ok(0)).then_some(())
            });
        }
        self.deliver();
        self.acted = wall();
    }

    fn check(
        &mut self,
        db: usize,
        key: &'static str,
        op: &Op,
        reply: Result<Value, redis::RedisError>,
        expected: Expect,
    ) {
        match (&expected, reply) {
            (Expect::Is(value), Ok(reply)) => assert_eq!(reply, *value, "{op:?}"),
            (Expect::Near(ms), Ok(Value::Int(reply))) => {
                assert!(reply > 0 && ms.abs_diff(reply as u64) <= BEHIND, "{op:?}: {reply}");
            }
            (Expect::Refused(code), Err(error)) => {
                let said = format!("{} {error}", error.code().unwrap_or_default());
                assert!(said.contains(code), "{op:?}: {error:?} is not {code}");
            }
            (Expect::Shown(it), Ok(reply)) => self.check_shown(op, it, reply),
            (Expect::From(from, _), Ok(Value::Array(reply))) => {
                let [named, given] = &reply[..] else { panic!("{op:?}: {reply:?}") };
                assert_eq!(*named, Value::BulkString(from.as_bytes().to_vec()), "{op:?}");
                let Expect::From(from, expected) = expected else { unreachable!() };
                self.check(db, from, op, Ok(given.clone()), *expected);
            }
            (Expect::NewId, Ok(Value::BulkString(id))) => {
                let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert!(id.len() == 32 && id.iter().all(is_hex), "{}", id.escape_ascii());
                let now = self.now();
                self.world.named(db, key, op, id, now);
            }
            (Expect::Leased(rows), Ok(Value::Array(reply))) => {
                let drawn = match reply.first() {
                    Some(Value::Array(first)) => first.last().cloned(),
                    _ => None,
                };
                let row = |row: &Vec<Value>| {
                    Value::Array(row.iter().cloned().chain(drawn.clone()).collect())
                };
                assert_eq!(reply, rows.iter().map(row).collect::<Vec<_>>(), "{op:?}");
                let Some(Value::BulkString(drawn)) = &drawn else { return };
                let token: u64 = String::from_utf8_lossy(drawn).parse().expect("a number");
                assert!(token >= 1 << 62, "{token}");
                let id = |row: &Vec<Value>| match &row[0] {
                    Value::BulkString(id) => id.clone(),
                    other => panic!("{other:?}"),
                };
                let ids: Vec<_> = rows.iter().map(id).collect();
                self.world.held(db, key, &ids, token);
            }
            (_, reply) => panic!("{op:?}: {reply:?} instead of {expected:?}"),
        }
    }

    /// Waits until policies have delivered everything, and checks the destinations.
    fn deliver(&mut self) {
        let now = self.now();
        if self.world.resume(now) {
            let paused = self.world.paused() as u64;
            until("pauses are over", || {
                (self.client.info("dehydrator", "dehydrator_paused") == paused).then_some(())
            });
        }
        let delivered = self.world.deliver(now);
        if delivered.is_empty() {
            return;
        }
        for db in 0..2 {
            self.select(db);
            for key in KEYS {
                let it = self.world.dbs[db].get(key);
                if matches!(it, Some(Kept::Text)) {
                    continue;
                }
                let it = self.world.dehydrator(db, key);
                let length = it.map_or(0, |it| it.entries.len());
                let what = format!("what is due in {key:?} of {db} is delivered, of {it:?}");
                until(&what, || {
                    let len = redis::cmd("DEHYDRATOR.LEN").arg(key).query(&mut self.client);
                    (len == Ok(length)).then_some(())
                });
            }
        }
        self.deliveries += delivered.iter().map(|it| it.elements.len()).sum::<usize>();
        for db in 0..2 {
            for dest in STREAMS {
                self.check_stream(db, dest, &delivered);
            }
            for dest in LISTS {
                self.check_list(db, dest, &delivered);
            }
        }
        let is_published = |it: &&Delivered| matches!(it.policy.route(), Policy::Publish(_));
        let sources: Vec<_> = delivered.iter().filter(is_published).collect();
        let mut expected: Vec<_> = elements_of(&sources);
        let mut heard = Vec::new();
        while heard.len() < expected.len() {
            let message = self.subscriber.recv_response().expect("a message");
            let (_, _, payload): (String, String, Bytes) =
                redis::from_redis_value(message).expect("three words");
            heard.push(payload);
        }
        if has_no_order(&sources) {
            heard.sort();
            expected.sort_by(|one, other| one.1.cmp(&other.1));
        }
        let expected: Vec<_> = expected.into_iter().map(|it| it.1).collect();
        assert_eq!(heard, expected, "published");
    }

    /// Checks the elements that were moved to a list, and empties it.
    fn check_list(&mut self, db: usize, dest: &str, delivered: &[Delivered]) {
        self.select(db);
        let mut found: Vec<Bytes> =
            cmd(&format!("LRANGE {dest} 0 -1")).query(&mut self.client).expect("elements");
        self.client.ask(&format!("DEL {dest}"));
        let end = |it: &Delivered| match *it.policy.route() {
            Policy::List { dest: to, is_left } if it.db == db && to == dest => Some(is_left),
            _ => None,
        };
        let sources: Vec<_> = delivered.iter().filter(|it| end(it).is_some()).collect();
        let mut expected: Vec<Bytes> = elements_of(&sources).into_iter().map(|it| it.1).collect();
        if has_no_order(&sources) {
            // Dehydrators that are due at one time take turns.
            found.sort();
            expected.sort();
        } else if sources.first().and_then(|it| end(it)) == Some(true) {
            expected.reverse();
        }
        assert_eq!(found, expected, "in {dest} of {db}");
    }

    /// Checks the elements that were moved to a stream, and empties it.
    fn check_stream(&mut self, db: usize, dest: &str, delivered: &[Delivered]) {
        self.select(db);
        type Entries = Vec<(String, Vec<Bytes>)>;
        let entries: Entries =
            cmd(&format!("XRANGE {dest} - +")).query(&mut self.client).expect("entries");
        let mut found: Vec<_> = entries
            .into_iter()
            .map(|(_, fields)| {
                let (groups, fields): (Vec<_>, Vec<_>) =
                    fields.chunks(2).partition(|pair| pair[0] == b"group");
                assert!(groups.iter().all(|pair| !pair[1].is_empty()), "{groups:?}");
                let (names, values): (Vec<_>, Vec<_>) =
                    fields.into_iter().map(|pair| (&pair[0][..], &pair[1])).unzip();
                let expected = [&b"id"[..], b"element", b"deliveries", b"reason"];
                assert_eq!(names, expected[..names.len()]);
                let reason = values.get(3).map(|it| it.to_vec()).unwrap_or_default();
                let deliveries = values.get(2).map(|it| String::from_utf8_lossy(it).parse());
                let deliveries: Option<u64> = deliveries.map(|it| it.expect("a number"));
                (values[0].clone(), values[1].clone(), deliveries, reason)
            })
            .collect();
        self.client.ask(&format!("DEL {dest}"));
        let mut longest = None;
        let goes_there = |it: &&Delivered| match *it.policy.route() {
            Policy::Stream { dest: to, maxlen } if it.db == db && to == dest => {
                longest = longest.or(maxlen.filter(|(exact, _)| *exact));
                true
            }
            _ => false,
        };
        let sources: Vec<_> = delivered.iter().filter(goes_there).collect();
        // Only dead letters have the delivery count.
        let told = |it: &Delivered| {
            let is_dead = it.policy.holds();
            let elements = it.elements.iter().cloned();
            elements
                .map(|(id, element, deliveries, _, reason)| {
                    let reason = if is_dead { reason } else { Bytes::new() };
                    (id, element, is_dead.then_some(deliveries), reason)
                })
                .collect::<Vec<_>>()
        };
        let mut expected: Vec<_> = sources.iter().flat_map(|it| told(it)).collect();
        if has_no_order(&sources) {
            // Dehydrators that are due at one time take turns.
            found.sort();
            expected.sort();
        }
        match longest {
            None => assert_eq!(found, expected, "{dest} of {db}"),
            Some((_, length)) if !has_no_order(&sources) => {
                let kept = expected.len().saturating_sub(length as usize);
                assert_eq!(found, expected[kept..], "{dest} of {db}");
            }
            // The trimming depends on whose turn came last.
            Some(_) => assert!(found.iter().all(|it| expected.contains(it)), "{dest} of {db}"),
        }
    }

    /// Restores one key's dump over another, or is refused.
    fn restore(&mut self) {
        let (db, from, to) =
            (self.random.below(2) as usize, self.random.pick(&KEYS), self.random.pick(&KEYS));
        let replace = self.random.one_in(2);
        self.note(format!("[{db}] {from:?} is dumped and restored as {to:?}, REPLACE {replace}"));
        self.select(db);
        let dump: Option<Bytes> =
            redis::cmd("DUMP").arg(from).query(&mut self.client).expect("a dump");
        assert_eq!(dump.is_some(), self.world.dbs[db].contains_key(from));
        let Some(dump) = dump else { return };
        let mut restore = redis::cmd("RESTORE");
        restore.arg(to).arg(0).arg(dump);
        if replace {
            restore.arg("REPLACE");
        }
        let restored = restore.query::<Value>(&mut self.client);
        if !replace && self.world.dbs[db].contains_key(to) {
            let error = restored.expect_err("the key is there");
            assert_eq!(error.code(), Some("BUSYKEY"), "{error}");
            return;
        }
        assert_eq!(restored, Ok(Value::Okay));
        let mut copy = self.world.dbs[db].get(from).cloned().expect("it was dumped");
        // A policy from RESTORE delivers nothing until it is confirmed.
        if let Kept::Dehydrator(dehydrator) = &mut copy {
            let words = words_of(to, &Op::OnDue(dehydrator.policy.clone()));
            let confirmed = command(&words).query::<Value>(&mut self.client);
            assert_eq!(confirmed, Ok(Value::Okay));
        }
        self.world.dbs[db].insert(to, copy);
    }

    /// Actions that must change nothing.
    fn upheave(&mut self) {
        let what = self.random.below(6);
        if matches!(what, 2 | 3) {
            // A restarted server has the machine's clock, until it is stepped.
            self.forget_rates();
        }
        let before = self.client.ask("DEBUG DIGEST");
        let names = ["reload", "append-only file", "kill -9", "restart", "replica", "full sync"];
        self.note(names[what as usize].to_owned());
        match what {
            0 => {
                self.client.ask("DEBUG RELOAD");
            }
            1 => {
                let preamble = self.random.pick(&["yes", "no"]);
                self.client.ask(&format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
                self.client.ask("BGREWRITEAOF");
                until("the append-only file is rewritten", || {
                    let is_over = self.client.info("persistence", "aof_rewrite_in_progress")
                        + self.client.info("persistence", "aof_rewrite_scheduled")
                        == 0;
                    is_over.then_some(())
                });
                self.client.ask("DEBUG LOADAOF");
            }
            2 | 3 => {
                if what == 2 {
                    self.server.crash_and_restart();
                } else {
                    self.server.restart();
                }
                self.client = self.server.connect();
                self.selected = 0;
                self.subscribe();
                self.set_clock();
            }
            _ => {
                if what == 5 {
                    let mut replica = self.replica.connect();
                    replica.ask("REPLICAOF NO ONE");
                    replica.ask("FLUSHALL");
                    self.replica.follow(&self.server);
                }
                let mut replica = self.replica.connect();
                until("the replica is equal", || {
                    (replica.ask("DEBUG DIGEST") == before).then_some(())
                });
            }
        }
        assert_eq!(self.client.ask("DEBUG DIGEST"), before, "{}", names[what as usize]);
        // Written data survives a kill -9 either way, and a disk may be slow.
        let fsync = self.random.pick(&["always", "no", "no"]);
        self.client.ask(&format!("CONFIG SET appendfsync {fsync}"));
        self.compare();
    }

    fn run(&mut self, operations: u64) {
        for _ in 0..operations {
            match self.random.below(400) {
                0..10 => self.pass(),
                10..14 => {
                    self.restore();
                    self.deliver();
                }
                14 => self.compare(),
                15 => self.upheave(),
                _ => self.step(),
            }
            let is_short = self.began.elapsed().as_millis() < u128::from(BEHIND / 2);
            assert!(is_short, "a run must be far shorter than a grain");
        }
        self.compare();
    }
}

fn elements_of(sources: &[&Delivered]) -> Vec<Gone> {
    sources.iter().flat_map(|it| it.elements.clone()).collect()
}

/// Returns whether the model does not know the order in which elements leave: dehydrators that are due at one time take
/// turns, and what is too late leaves by the millisecond.
fn has_no_order(sources: &[&Delivered]) -> bool {
    sources.len() > 1 || sources.iter().any(|it| it.elements.iter().any(|gone| gone.3))
}

#[test]
fn whatever_is_done_to_it_a_dehydrator_is_what_the_model_says() {
    let operations = setting("DEHYDRATOR_OPERATIONS", OPERATIONS);
    let mut torture = Torture::new(seed());
    torture.run(operations);
    println!("{operations} operations, {} deliveries", torture.deliveries);
    assert!(operations < 5000 || torture.deliveries > 100, "nothing was delivered");
    let log = torture.server.log() + &torture.replica.log();
    assert!(!log.contains("a bug, please report it"), "{log}");
}
