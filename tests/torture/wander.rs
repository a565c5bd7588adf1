//! Dehydrators with policies that move through the keyspace by every command that moves a key.

use redis::{Cmd, Connection, Pipeline, Value};

use crate::random::Random;
use harness::{Ask, Server, cmd, until};

const KEYS: u64 = 40;
const DATABASES: u64 = 4;
const ROUNDS: usize = 60;
const BATCHES: usize = 20;

impl Random {
    fn key(&mut self) -> String {
        format!("k{}", self.below(KEYS))
    }

    fn command(&mut self, number: usize) -> Cmd {
        let (one, other, db) = (self.key(), self.key(), self.below(DATABASES));
        let ttl = [0, 1, 5, 50, 200, 300][self.below(6) as usize];
        let policy = [
            "STREAM s",
            "STREAM s MAXLEN ~ 100",
            "LIST l",
            "LIST l LEFT",
            "DROP",
            "PUBLISH c",
            "HOLD",
        ];
        let policy = policy[self.below(7) as usize];
        let replace = ["", " REPLACE"][self.below(2) as usize];
        let group = ["", " GROUP a", " GROUP b"][self.below(3) as usize];
        cmd(&match self.below(100) {
            0..35 => format!("DEHYDRATOR.PUSH {one} {ttl} element id-{number}{group}"),
            35..45 => format!("DEHYDRATOR.ONDUE {one} {policy}"),
            45..65 => format!("RENAME {one} {other}"),
            65..70 => format!("MOVE {one} {db}"),
            70..78 => format!("COPY {one} {other} DB {db}{replace}"),
            78..81 => format!("SWAPDB {db} {}", self.below(DATABASES)),
            81..83 => format!("DEL {one}"),
            83..84 => format!("SET {one} text"),
            84..86 => format!("PEXPIRE {one} {}", 1 + self.below(3000)),
            86..88 => format!("DEHYDRATOR.POLL {one}"),
            88..90 => format!("DEHYDRATOR.POLL {one} LEASE 50"),
            // Only sometimes, or there would never be many.
            90..91 if self.below(10) == 0 => "FLUSHDB".to_owned(),
            90..92 => format!("UNLINK {one}"),
            _ => return self.restore(&one, &other),
        })
    }

    /// Restores a dump of one key over another, in one transaction.
    fn restore(&mut self, from: &str, to: &str) -> Cmd {
        // A policy from RESTORE delivers nothing until it is confirmed.
        let script = "local dump = redis.call('DUMP', KEYS[1]) \
                      if not dump then return end \
                      redis.call('RESTORE', KEYS[2], 0, dump, 'REPLACE') \
                      local info = redis.pcall('DEHYDRATOR.INFO', KEYS[2]) \
                      for at = 1, #info, 2 do \
                          if info[at] == 'policy' then \
                              local it, policy = {}, info[at + 1] \
                              for at = 1, #policy, 2 do it[policy[at]] = policy[at + 1] end \
                              local words = { it.action } \
                              if it.deliveries > 0 then \
                                  words = { 'HOLD', 'DELIVERIES', it.deliveries, it['dead-letters'] } \
                              end \
                              if it.dest then table.insert(words, it.dest) end \
                              if it['end'] then table.insert(words, it['end']) end \
                              if it.maxlen > 0 then \
                                  table.insert(words, 'MAXLEN') \
                                  table.insert(words, it.approximate == 1 and '~' or '=') \
                                  table.insert(words, it.maxlen) \
                              end \
                              redis.call('DEHYDRATOR.ONDUE', KEYS[2], unpack(words)) \
                          end \
                      end";
        let mut eval = redis::cmd("EVAL");
        eval.arg(script).arg(2).arg(from).arg(to);
        eval
    }
}

/// Returns the dehydrators with a policy that are not empty, by all possible names.
fn left(client: &mut Connection) -> Vec<String> {
    let mut left = Vec::new();
    for db in 0..DATABASES {
        client.ask(&format!("SELECT {db}"));
        for key in (0..KEYS).map(|key| format!("k{key}")) {
            let info: Result<Vec<Value>, _> = cmd(&format!("DEHYDRATOR.INFO {key}")).query(client);
            let Ok(info) = info else { continue };
            let of = |name: &str| {
                let name = Value::BulkString(name.into());
                let at = info.iter().step_by(2).position(|it| *it == name);
                &info[2 * at.expect("a field of that name") + 1]
            };
            let Value::Array(policy) = of("policy") else { panic!("{info:?}") };
            let is_held = policy[1] == Value::BulkString(b"HOLD".to_vec());
            if !is_held && *of("length") != Value::Int(0) {
                left.push(format!("{key} in {db}: {info:?}"));
            }
        }
    }
    left
}

fn wander(seed: u64, options: &[&str]) {
    println!("seed {seed}");
    let options = [&["--databases", "4"], options].concat();
    let primary = Server::start_with_port(&options);
    let replica = Server::start_with_port(&["--databases", "4", "--repl-diskless-load", "swapdb"]);
    let mut copy = replica.connect();
    copy.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let mut random = Random::new(seed);
    let mut client = primary.connect();
    for round in 0..ROUNDS {
        for batch in 0..BATCHES {
            let mut pipe = Pipeline::new();
            if random.below(3) == 0 {
                pipe.atomic();
            }
            pipe.cmd("SELECT").arg(random.below(DATABASES));
            for number in 0..=random.below(20) as usize {
                pipe.add_command(random.command((round * BATCHES + batch) * 20 + number));
            }
            // Many are refused, because the key is missing, or has another type.
            let _ = pipe.ignore_errors().query::<Vec<Value>>(&mut client);
        }
        // Everything comes due within a second. A forgotten key would stay forever.
        let mut waited = Vec::new();
        until(&format!("all that was bound is delivered, in round {round}"), || {
            waited = left(&mut client);
            waited.is_empty().then_some(())
        });
        if round % (ROUNDS / 3) == 0 {
            copy.ask("REPLICAOF NO ONE");
            copy.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
        }
    }
    client.ask("SELECT 0");
    // Nothing may come due between the two digests.
    until("the replica is equal", || {
        let before = client.ask("DEBUG DIGEST");
        client.ask("WAIT 1 1000");
        let there = copy.ask("DEBUG DIGEST");
        (before == there && client.ask("DEBUG DIGEST") == before).then_some(())
    });
    let delivered = primary.info("dehydrator", "dehydrator_deliveries");
    assert!(delivered > 500, "{delivered} were delivered: nothing was tried");
    let log = primary.log() + &replica.log();
    assert!(!log.contains("a bug, please report it"), "{log}");
}

#[test]
fn whatever_moves_a_key_its_due_elements_are_delivered() {
    wander(0x5eed, &["--appendonly", "yes", "--appendfsync", "no"]);
}

#[test]
fn whatever_moves_a_key_while_events_are_on_its_due_elements_are_delivered() {
    wander(0xbeef, &["--notify-keyspace-events", "KEA"]);
}
