//! Replicas equal their primaries element by element, whatever happens to the link.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Connection, Value};

use crate::sleeper::Sleeper;
use harness::{Ask, Server, cmd, text, texts, until};

/// The keys of [`Load`].
pub const KEYS: [&str; 3] = ["k0", "group", "UNCOUNTED"];

/// Words of our own syntax, in any case, that an id, a token or the name of a group may be. A test compares them
/// with HELP.
pub const WORDS: &str = "ALL ALLOW approximate AT at BLOCK channel COUNT count deliveries DROP EACH ELEMENT FOR FROM \
                     FULL GROUP group gt HELD HOLD IDS JITTER LEASE LEFT LENGTH LIST LT MATCH MAXLEN MISSED NONE NX \
                     ONE OVERLAP PER PREFIX prefix PUBLISH RATE REASON reason REMEMBER REPLACE RIGHT SCHEDULE SHARE \
                     SKIP slack STREAM TIMES TOKEN UNCOUNTED uncounted UNTIL WITHELEMENTS WITHIDS within WITHTOKENS \
                     ZONE 0 1 P0@9 U9 R H9 = ~ -1";

/// Random operations of every kind, reproducible from the seed.
pub struct Load {
    random: u64,
    sent: usize,
}

impl Load {
    pub fn new(seed: u64) -> Self {
        Self { random: seed, sent: 0 }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    /// Draws one of our own words.
    fn word(&mut self) -> &'static str {
        let count = WORDS.split_whitespace().count() as u64;
        let at = self.next(count) as usize;
        WORDS.split_whitespace().nth(at).expect("it is counted")
    }

    /// Draws an id: one in four is a word of ours.
    fn id(&mut self) -> String {
        if self.next(4) == 0 { self.word().into() } else { format!("id-{}", self.next(400)) }
    }

    /// Sends `count` commands, some in transactions and scripts. Errors are part of it.
    pub fn send(&mut self, client: &mut Connection, count: usize) {
        const SCRIPT: &str = "redis.pcall('DEHYDRATOR.PUSH', KEYS[1], ARGV[1], ARGV[2], ARGV[3]) \
                              redis.call('DEHYDRATOR.GIDPUSH', KEYS[1], ARGV[1], ARGV[2]) \
                              return redis.call('DEHYDRATOR.PULL', KEYS[1], 'id-10')";
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for _ in 0..count {
            self.sent += 1;
            let key = KEYS[self.next(3) as usize];
            let [id, other] = [self.id(), self.id()];
            let token = if self.next(3) == 0 { self.word() } else { "t" };
            // A few TTLs with queues, and many with one element each.
            let ttl = match self.next(9) as usize {
                few @ 0..6 => [0, 1, 5, 50, 600_000, 700_000][few],
                _ => 600_000 + self.next(100_000),
            };
            let element = format!("element-{}", self.sent);
            let push = format!("DEHYDRATOR.PUSH {key} {ttl} {element} {id}");
            let line = match self.next(225) {
                0..80 => push,
                80..90 => format!("DEHYDRATOR.GIDPUSH {key} {ttl} {element}"),
                90..110 => format!("DEHYDRATOR.PULL {key} {id}"),
                110..120 => format!("DEHYDRATOR.POLL {key}"),
                120..130 => format!("DEHYDRATOR.UPDATE {key} {id} {element}"),
                130..140 => format!("DEHYDRATOR.XACK {key} {id} id-7 id-8"),
                140..150 => format!("DEHYDRATOR.REM {key} {id} id-9"),
                150..165 => {
                    for line in ["MULTI", &push, &format!("DEHYDRATOR.POLL {key}")] {
                        pipe.add_command(cmd(line));
                    }
                    "EXEC".into()
                }
                165..175 => {
                    pipe.cmd("EVAL").arg(SCRIPT).arg(1).arg(key).arg(ttl).arg(element).arg(id);
                    continue;
                }
                178..183 => format!("{push} REPLACE"),
                183..185 => format!("{push} NX SLACK 50"),
                185 => {
                    format!("DEHYDRATOR.EFFECT {key} P{ttl}@{},delivered=3 {element} {id}", 1 + ttl)
                }
                186..191 => format!("DEHYDRATOR.TOUCH {key} {ttl} GT {id}"),
                191..195 => format!("DEHYDRATOR.MPUSH {key} {ttl} a {id} 600000 b b-{}", self.sent),
                195..197 => format!("DEHYDRATOR.POLL {key} COUNT 3 WITHIDS"),
                197 | 205..209 => {
                    format!("DEHYDRATOR.POLL {key} COUNT 50 LEASE {} TOKEN {token}", 1 + ttl)
                }
                198 | 209 => format!("DEHYDRATOR.RENEW {key} {ttl} {token} {id} t {other}"),
                199 => format!("DEHYDRATOR.SETTLE {key} {token} {id}"),
                200..203 => format!("DEHYDRATOR.POLL {key} COUNT 5 LEASE {}", 1 + ttl),
                203..205 => format!("DEHYDRATOR.RELEASE {key} {ttl} {token} {id} t {other}"),
                210..214 => {
                    let counted = ["", " UNCOUNTED"][self.next(2) as usize];
                    let reason = ["", " REASON why", " REASON ''"][self.next(3) as usize];
                    let pairs = format!("{token} {id} t {other}");
                    format!("DEHYDRATOR.RELEASE {key} {ttl} {pairs}{counted}{reason}")
                }
                214..216 => format!("{push} GROUP {} NX", self.word()),
                216 => format!("DEHYDRATOR.TOUCH {key} {ttl} IDS 2 {id} {other}"),
                217 => format!("DEHYDRATOR.TOUCH {key} 0 AT {} {id}", 600_000 + ttl),
                218 => format!("DEHYDRATOR.TOUCH {key} {ttl} GROUP {}", self.word()),
                219 => format!("DEHYDRATOR.PAUSE {key} FOR 1 GROUP {}", self.word()),
                220 => format!("DEHYDRATOR.LIMIT {key} GROUP {} SHARE 2", self.word()),
                221 => format!("DEHYDRATOR.PURGE {key} GROUP {}", self.word()),
                222 => format!("DEHYDRATOR.MPUSH {key} {ttl} a {id} {ttl} b {other} NX"),
                224 => format!(
                    "DEHYDRATOR.RELEASE {key} {ttl} t {id} ELEMENT {element} REASON {other}"
                ),
                223 => format!("DEHYDRATOR.UPDATE {key} {other} {id}"),
                175 => format!("RENAME {} {}", KEYS[2], KEYS[1]),
                176 => format!("COPY {} {} REPLACE", KEYS[1], KEYS[2]),
                177 => format!("UNLINK {key}"),
                _ => "PING".into(),
            };
            pipe.add_command(cmd(&line));
        }
        let _: Vec<Value> = pipe.query(client).expect("replies");
    }
}

/// Starts a replica of `primary`, in sync with it.
pub fn replica_of(primary: &Server, options: &[&str]) -> Server {
    let replica = Server::start_with_port(options);
    replica.follow(primary);
    replica
}

/// Waits until the replica has everything that was sent before.
pub fn catch_up(primary: &Server, replica: &Server) {
    let mut primary = primary.connect();
    // An extra write, so that there is an offset to wait for.
    let mark = format!("mark-{:?}", std::time::Instant::now()).replace(' ', "");
    redis::cmd("SET").arg("mark").arg(&mark).exec(&mut primary).expect("SET");
    let mut replica = replica.connect();
    until("the replica has caught up", || (replica.ask("GET mark") == text(&mark)).then_some(()));
}

fn digests(server: &Server) -> Vec<Value> {
    let mut client = server.connect();
    KEYS.iter().map(|key| client.digest(key)).collect()
}

/// Returns all that commands show of a key, part by part: its limits and rules, its rows, and each element with its own bounds
/// and its group.
pub fn parts(client: &mut Connection, key: &str) -> Vec<(String, Value)> {
    let mut parts = Vec::new();
    let mut ask = |client: &mut Connection, line: String| {
        let reply = client.ask(&line);
        parts.push((line, reply.clone()));
        reply
    };
    for line in ["TTN key", "LEN key"] {
        ask(client, format!("DEHYDRATOR.{}", line.replace("key", key)));
    }
    ask(client, format!("DEHYDRATOR.RANGE {key} - + WITHELEMENTS WITHTOKENS"));
    let scan = cmd(&format!("DEHYDRATOR.SCAN {key} 0 COUNT 100000"));
    let (_, ids): (u64, Vec<String>) = scan.query(client).expect("ids");
    for id in ids {
        ask(client, format!("DEHYDRATOR.LOOK {key} {id} FULL"));
    }
    parts
}

pub fn assert_equal(primary: &Server, replica: &Server) {
    catch_up(primary, replica);
    if digests(primary) != digests(replica) {
        // Says which part of a value differs.
        for key in KEYS {
            let [here, there] = [primary, replica].map(|server| parts(&mut server.connect(), key));
            here.iter().zip(&there).for_each(|(here, there)| assert_eq!(here, there, "{key}"));
        }
    }
    assert_eq!(digests(primary), digests(replica));
    let nothing = format!("\"{}\"", "0".repeat(40));
    assert_ne!(format!("{:?}", digests(primary)[0]), nothing);
}

#[test]
fn a_replica_equals_its_primary_even_if_their_dehydrators_have_other_forms() {
    stays_equal(
        &["small-max-elements", "0"],
        &["small-max-elements", "512", "small-max-bytes", "65536"],
    );
    stays_equal(&["small-max-elements", "200"], &["small-max-elements", "3"]);
}

fn stays_equal(primary_options: &[&str], replica_options: &[&str]) {
    let primary = Server::start_with_port(primary_options);
    let replica = Server::start_with_port(replica_options);
    stays_equal_to(&primary, &replica);
}

fn stays_equal_to(primary: &Server, replica: &Server) {
    let mut client = primary.connect();
    let mut load = Load::new(1);
    load.send(&mut client, 3000);
    replica.follow(primary);
    assert_equal(primary, replica);
    for _ in 0..10 {
        load.send(&mut client, 1000);
        assert_equal(primary, replica);
    }
    // Once more from the start, with data to discard on the replica.
    replica.connect().ask("REPLICAOF NO ONE");
    load.send(&mut client, 1000);
    replica.follow(primary);
    load.send(&mut client, 1000);
    assert_equal(primary, replica);
}

#[test]
fn a_replica_that_syncs_with_a_file_equals_its_primary() {
    stays_equal(&["--repl-diskless-sync", "no"], &["--repl-diskless-load", "disabled"]);
}

#[test]
fn a_replica_that_syncs_without_a_disk_equals_its_primary() {
    let diskless = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
    stays_equal(&diskless, &["--repl-diskless-load", "on-empty-db"]);
}

#[test]
fn a_replica_that_swaps_databases_equals_its_primary() {
    let diskless = ["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"];
    stays_equal(&diskless, &["--repl-diskless-load", "swapdb"]);
}

/// Asserts that all data is equal, by the digest that an operator would compare.
fn assert_equal_as_a_whole(primary: &Server, replica: &Server) {
    let mut both = [primary, replica].map(Server::connect);
    // The architecture of a server: INFO ends its line about the system with the machine.
    let machines = both.each_mut().map(|client| {
        let info: String = cmd("INFO server").query(client).expect("text");
        let system = info.lines().find(|line| line.starts_with("os:")).expect("a system");
        system.rsplit(' ').next().expect("a machine").to_owned()
    });
    assert_ne!(machines[0], machines[1], "one architecture is no comparison");
    let [digest, replica_digest] = both.each_mut().map(|client| client.ask("DEBUG DIGEST"));
    assert_eq!(digest, replica_digest);
    println!("a primary on {}, a replica on {}: {digest:?}", machines[0], machines[1]);
}

#[test]
#[ignore = "needs a server and a module of another architecture: `make arm64` has them"]
fn a_replica_of_another_architecture_equals_its_primary() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_of_other_architecture(&[]);
    stays_equal_to(&primary, &replica);
    assert_equal_as_a_whole(&primary, &replica);
}

#[test]
#[ignore = "needs a server and a module of another architecture: `make arm64` has them"]
fn a_replica_of_a_primary_of_another_architecture_equals_it() {
    let primary = Server::start_of_other_architecture(&[]);
    let replica = Server::start_with_port(&[]);
    stays_equal_to(&primary, &replica);
    assert_equal_as_a_whole(&primary, &replica);
}

#[test]
fn a_replica_of_a_replica_equals_the_primary() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let middle = replica_of(&primary, &["--appendonly", "yes"]);
    let last = replica_of(&middle, &[]);
    Load::new(2).send(&mut primary.connect(), 5000);
    assert_equal(&primary, &middle);
    assert_equal(&primary, &last);
}

#[test]
fn a_replica_allows_reads_refuses_writes_and_expires_nothing_by_itself() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let (mut writer, mut reader) = (primary.connect(), replica.connect());
    writer.ask("DEHYDRATOR.PUSH k 0 first a");
    writer.ask("DEHYDRATOR.PUSH k 600000 second b");
    catch_up(&primary, &replica);
    assert_eq!(reader.ask("DEHYDRATOR.LOOK k b"), text("second"));
    assert_eq!(reader.ask("DEHYDRATOR.XPOLL k"), texts(&["a"]));
    assert_eq!(reader.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    for write in
        ["POLL k", "PULL k a", "XACK k a", "REM k a", "PUSH k 0 c c", "UPDATE k a b", "TOUCH k 5 a"]
    {
        let error = reader.refused(&format!("DEHYDRATOR.{write}"));
        assert!(error.starts_with("READONLY"), "{write}: {error}");
    }
    assert_eq!(reader.digest("k"), writer.digest("k"));
    assert_eq!(writer.ask("DEHYDRATOR.POLL k"), texts(&["first"]));
    catch_up(&primary, &replica);
    assert_eq!(reader.ask("DEHYDRATOR.XPOLL k"), texts(&[]));
}

#[test]
fn a_promoted_replica_continues_where_its_primary_stopped() {
    let mut primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    Load::new(3).send(&mut primary.connect(), 4000);
    catch_up(&primary, &replica);
    let before = digests(&primary);
    let due: Vec<Value> =
        KEYS.iter().map(|key| primary.connect().ask(&format!("DEHYDRATOR.XPOLL {key}"))).collect();
    primary.kill();
    let mut promoted = replica.connect();
    promoted.ask("REPLICAOF NO ONE");
    assert_eq!(digests(&replica), before);
    for (key, due) in KEYS.iter().zip(due) {
        // More elements have come due since, after those that were due before.
        let (Value::Array(before), Value::Array(now), Value::Array(polled)) = (
            due,
            promoted.ask(&format!("DEHYDRATOR.XPOLL {key}")),
            promoted.ask(&format!("DEHYDRATOR.POLL {key}")),
        ) else {
            panic!("arrays")
        };
        assert!(now.starts_with(&before), "{before:?}, then {now:?}");
        assert!(polled.len() >= now.len());
    }
}

/// Pushes and pulls one by one until the server is gone, each acknowledged by a replica.
struct Acknowledged {
    pushed: HashSet<String>,
    pulled: HashSet<String>,
    /// The operation during which the connection broke: it may have happened or not.
    unsure: String,
}

fn work_until_cut_off(mut client: Connection, name: &str) -> Acknowledged {
    let mut done =
        Acknowledged { pushed: HashSet::new(), pulled: HashSet::new(), unsure: String::new() };
    for number in 0.. {
        let id = format!("{name}-{number}");
        done.unsure.clone_from(&id);
        let mut pipe = redis::pipe();
        pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(600_000).arg("element").arg(&id);
        pipe.cmd("WAIT").arg(1).arg(5000);
        match pipe.query(&mut client) {
            Ok((Value::Okay, Value::Int(1))) => drop(done.pushed.insert(id)),
            _ => return done,
        }
        if number % 3 == 2 {
            let id = format!("{name}-{}", number - 1);
            done.unsure.clone_from(&id);
            let mut pipe = redis::pipe();
            pipe.cmd("DEHYDRATOR.PULL").arg("k").arg(&id);
            pipe.cmd("WAIT").arg(1).arg(5000);
            match pipe.query(&mut client) {
                Ok((Value::BulkString(_), Value::Int(1))) => drop(done.pulled.insert(id)),
                _ => return done,
            }
        }
    }
    unreachable!("numbers do not end")
}

fn assert_nothing_acknowledged_is_lost(survivor: &mut Connection, done: &[Acknowledged]) {
    for done in done {
        assert!(done.pushed.len() > 20, "only {} pushes: no load", done.pushed.len());
        for id in &done.pushed {
            let there = survivor.ask(&format!("DEHYDRATOR.LOOK k {id}")) != Value::Nil;
            if *id != done.unsure {
                assert_eq!(there, !done.pulled.contains(id), "{id}");
            }
        }
    }
}

#[test]
fn a_failover_under_load_loses_nothing_acknowledged_and_delivers_nothing_twice() {
    let mut primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let clients: Vec<_> = (0..3).map(|_| primary.connect()).collect();
    let done: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, client)| {
                scope.spawn(move || work_until_cut_off(client, &format!("worker{number}")))
            })
            .collect();
        let mut watch = replica.connect();
        until("there is some data", || {
            (watch.ask("DEHYDRATOR.TTN k") != Value::Nil
                && watch.info("replication", "slave_repl_offset") > 200_000)
                .then_some(())
        });
        primary.kill();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    let mut promoted = replica.connect();
    promoted.ask("REPLICAOF NO ONE");
    assert_nothing_acknowledged_is_lost(&mut promoted, &done);
}

#[test]
fn a_coordinated_failover_under_load_keeps_both_sides_equal() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut load = Load::new(4);
            // Refused after the roles have changed, as intended.
            (0..50).for_each(|_| load.send(&mut primary.connect(), 200));
        });
        client.ask("FAILOVER");
        until("the roles have changed", || {
            let Value::Array(role) = replica.connect().ask("ROLE") else { panic!("an array") };
            (role[0] == text("master")).then_some(())
        });
    });
    primary.wait_for_link();
    Load::new(5).send(&mut replica.connect(), 500);
    assert_equal(&replica, &primary);
}

#[test]
fn a_link_that_is_cut_and_restored_midway_loses_nothing() {
    let primary = Server::start_with_port(&["--repl-backlog-size", "100mb"]);
    let replica = replica_of(&primary, &[]);
    let (mut client, mut cutter) = (primary.connect(), primary.connect());
    let mut load = Load::new(6);
    for _ in 0..10 {
        load.send(&mut client, 300);
        cutter.ask("CLIENT KILL TYPE replica");
        load.send(&mut client, 300);
    }
    replica.wait_for_link();
    assert_equal(&primary, &replica);
    assert!(primary.info("stats", "sync_partial_ok") > 0, "no link was mended");
}

#[test]
fn paused_writes_wait_and_the_tick_does_not_replicate_meanwhile() {
    let dump = std::path::Path::new("tests/data/rede-0.5-due.rdb");
    let primary = Server::start_with_files(
        &["--hz", "100", "--dbfilename", "dump.rdb"],
        &[(dump, "dump.rdb")],
    );
    let mut client = primary.connect();
    client.ask("CLIENT PAUSE 100000 WRITE");
    // The read makes the tick delete the key, which must wait until it may replicate.
    assert_eq!(client.ask("DEHYDRATOR.TTN emptied"), Value::Nil);
    let ticks = primary.info("dehydrator", "dehydrator_ticks");
    until("some ticks have passed", || {
        (primary.info("dehydrator", "dehydrator_ticks") > ticks + 10).then_some(())
    });
    assert!(client.exists("emptied"));
    assert_eq!(primary.info("dehydrator", "dehydrator_compaction_pending"), 1);
    client.ask("CLIENT UNPAUSE");
    until("the tick has deleted it", || (!client.exists("emptied")).then_some(()));
}

#[test]
fn taking_from_a_writable_replica_does_not_harm_its_primary() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &["--replica-read-only", "no"]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().ask("DEHYDRATOR.POLL k"), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["element"]));
    client.ask("DEHYDRATOR.PUSH k 0 again id");
    catch_up(&primary, &replica);
    assert_eq!(replica.connect().ask("DEHYDRATOR.LOOK k id"), text("again"));
}

/// Waits until the module has noticed that nobody receives this server's effects.
fn until_quiet(server: &Server) {
    let ticks = || server.info("dehydrator", "dehydrator_ticks");
    let before = ticks();
    until("the module has looked", || (ticks() >= before + 5).then_some(()));
}

/// Sends operations until the work is done.
fn under_load(server: &Server, seed: u64, work: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let load = || {
            let (mut client, mut load) = (server.connect(), Load::new(seed));
            while !is_done.load(Ordering::Relaxed) {
                load.send(&mut client, 20);
            }
            load.send(&mut client, 100);
        };
        let worker = scope.spawn(load);
        work();
        is_done.store(true, Ordering::Relaxed);
        worker.join().expect("no panic");
    });
}

#[test]
fn a_first_replica_attached_under_load_equals_its_primary() {
    for diskless in ["yes", "no"] {
        let primary = Server::start_with_port(&["--repl-diskless-sync", diskless]);
        Load::new(8).send(&mut primary.connect(), 500);
        until_quiet(&primary);
        let replica = Server::start_with_port(&[]);
        under_load(&primary, 9, || replica.follow(&primary));
        assert_equal(&primary, &replica);
        // A second one shares the backlog, or a snapshot.
        let second = Server::start_with_port(&[]);
        under_load(&primary, 10, || second.follow(&primary));
        assert_equal(&primary, &second);
        assert_equal(&primary, &replica);
    }
}

#[test]
fn a_primary_whose_replica_is_promoted_follows_it_and_equals_it() {
    let [first, second] = [(); 2].map(|()| Server::start_with_port(&[]));
    Load::new(11).send(&mut first.connect(), 500);
    second.follow(&first);
    assert_equal(&first, &second);
    second.connect().ask("REPLICAOF NO ONE");
    under_load(&second, 12, || until_quiet(&second));
    under_load(&second, 13, || first.follow(&second));
    assert_equal(&second, &first);
}

#[test]
fn an_append_only_file_started_under_load_contains_everything() {
    let (server, mut client) =
        Server::with_client(&["--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"]);
    Load::new(14).send(&mut client, 500);
    until_quiet(&server);
    under_load(&server, 15, || {
        client.ask("CONFIG SET appendonly yes");
        client.wait_for_rewrite();
    });
    let before = digests(&server);
    client.ask("DEBUG LOADAOF");
    assert_eq!(digests(&server), before);
}

#[test]
fn changes_are_counted_even_without_replicas_or_file() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element kept");
    until_quiet(&server);
    for line in [
        "DEHYDRATOR.PUSH k 600000 element id",
        "DEHYDRATOR.UPDATE k id other",
        "DEHYDRATOR.TOUCH k 700000 id",
        "DEHYDRATOR.PULL k id",
        "DEHYDRATOR.PUSH k 0 element id",
        "DEHYDRATOR.POLL k LEASE 600000",
        "DEHYDRATOR.XACK k id",
        "DEHYDRATOR.MPUSH k 0 element id 0 element other",
        "DEHYDRATOR.POLL k",
        "DEHYDRATOR.REM k kept absent",
    ] {
        let before = client.info("persistence", "rdb_changes_since_last_save");
        client.ask(line);
        let now = client.info("persistence", "rdb_changes_since_last_save");
        assert!(now > before, "{line}");
    }
    // Outside of a command too: a push is one change, and waking a client another.
    for (id, options) in [("first", "COUNT 1"), ("second", "LEASE 600000")] {
        let sleeper = Sleeper::start(&server, &format!("DEHYDRATOR.POLL woken BLOCK 0 {options}"));
        let before = client.info("persistence", "rdb_changes_since_last_save");
        client.ask(&format!("DEHYDRATOR.PUSH woken 0 element {id}"));
        sleeper.reply();
        let now = client.info("persistence", "rdb_changes_since_last_save");
        assert_eq!(now, before + 2, "{options}");
    }
}

#[test]
fn commands_by_rede_names_are_replicated_by_ours() {
    let primary = Server::start_with_port(&["rede-commands", "yes"]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    for line in [
        "REDE.PUSH k0 600000 element id-1",
        "rede.push k0 600000 element id-2",
        "REDE.UPDATE k0 id-1 other",
        "REDE.PULL k0 id-2",
        "dehydrator.push k0 600000 element id-3",
        "dehydrator.update k0 id-3 other",
        "dehydrator.push k0 600000 element id-4",
        "dehydrator.pull k0 id-4",
    ] {
        client.ask(line);
    }
    assert_equal(&primary, &replica);
    assert_eq!(replica.connect().ask("DEHYDRATOR.LEN k0"), Value::Int(2));
}
