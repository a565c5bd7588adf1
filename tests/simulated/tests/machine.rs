//! The simulated server by itself: what a world relies on.

use std::env;
use std::path::PathBuf;

use simulated::machine::{Image, Kind, Machine, Propagated, Reply, SLOTS, ServerId, slot_of};

fn library() -> PathBuf {
    let named = env::var_os("DEHYDRATOR_MODULE").map(PathBuf::from);
    named.unwrap_or_else(|| {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/debug/libdehydrator.so"))
    })
}

const KINDS: [Kind; 4] = [Kind::Redis70, Kind::Redis8, Kind::Valkey8, Kind::Valkey9];

#[test]
fn a_block_ends_in_time_although_the_wall_clock_steps_back() {
    for kind in KINDS {
        let mut machine = Machine::new(&library(), kind, 7);
        let s = machine.start(&[]);
        let c = machine.connect(s);
        machine.send(c, &[b"DEHYDRATOR.POLL", b"k", b"BLOCK", b"700"]);
        machine.settle();
        machine.step_wall(-5000);
        machine.advance(650_000);
        assert_eq!(machine.replies(c), []);
        // Within two ticks of the cron.
        machine.advance(250_000);
        assert_eq!(machine.replies(c), [Reply::Array(vec![])], "{kind:?}");
    }
}

/// A primary with some elements, whose replica is in step.
fn pair(kind: Kind, settings: &[(&str, &str)]) -> (Machine, ServerId, ServerId) {
    let mut machine = Machine::new(&library(), kind, 7);
    let primary = machine.start(settings);
    let replica = machine.start(settings);
    machine.ask(primary, "DEHYDRATOR.PUSH k 600000 before 0");
    machine.replicate(primary, replica, 5_000);
    machine.advance(10_000);
    (machine, primary, replica)
}

fn assert_equal(machine: &mut Machine, one: ServerId, other: ServerId) {
    assert!(machine.is_in_step(other));
    let keys = machine.keys(one, 0);
    assert_eq!(keys, machine.keys(other, 0));
    for key in keys {
        assert_eq!(machine.digest(one, 0, &key), machine.digest(other, 0, &key));
    }
    assert_eq!(machine.disobeyed(other), Vec::<String>::new());
}

#[test]
fn a_replica_follows_with_its_lag_through_cuts_and_becomes_a_primary() {
    for kind in KINDS {
        let (mut machine, primary, replica) = pair(kind, &[]);
        assert_equal(&mut machine, primary, replica);
        machine.ask(primary, "DEHYDRATOR.PUSH k 600000 a 1");
        machine.advance(2_000);
        assert!(!machine.is_in_step(replica), "it lags");
        machine.advance(10_000);
        assert_equal(&mut machine, primary, replica);
        assert_eq!(machine.ask(replica, "DEHYDRATOR.LEN k"), Reply::Int(2));
        let refused = machine.ask(replica, "DEHYDRATOR.PULL k 1");
        assert!(matches!(refused, Reply::Error(text) if text.starts_with(b"READONLY")));

        // Effects in several databases, in one transaction.
        let c = machine.connect(primary);
        for line in ["MULTI", "SET s text", "SELECT 2", "DEHYDRATOR.PUSH k 600000 a 1", "EXEC"] {
            let words: Vec<_> = line.split(' ').map(str::as_bytes).collect();
            machine.send(c, &words);
        }
        machine.advance(10_000);
        assert_eq!(
            [machine.keys(replica, 0), machine.keys(replica, 2)],
            [vec![b"k".to_vec(), b"s".to_vec()], vec![b"k".to_vec()],]
        );
        machine.ask(primary, "DEL s");
        machine.advance(10_000);

        // What was on the way is lost with the wire, and comes again.
        machine.ask(primary, "DEHYDRATOR.PUSH k 600000 b 2");
        machine.cut(replica);
        machine.ask(primary, "DEHYDRATOR.PUSH k 600000 c 3");
        machine.advance(100_000);
        assert_eq!(machine.ask(replica, "DEHYDRATOR.LEN k"), Reply::Int(2));
        machine.replicate(primary, replica, 1_000);
        machine.advance(10_000);
        assert_equal(&mut machine, primary, replica);

        machine.fail_over(replica);
        assert!(machine.is_replica(primary) && !machine.is_replica(replica));
        machine.ask(replica, "DEHYDRATOR.PULL k 3");
        machine.advance(10_000);
        assert_equal(&mut machine, replica, primary);
        assert_eq!(machine.ask(primary, "DEHYDRATOR.LEN k"), Reply::Int(3));
    }
}

#[test]
fn a_replica_of_a_replica_gets_what_its_primary_gets() {
    let (mut machine, primary, middle) = pair(Kind::Valkey8, &[]);
    let last = machine.start(&[]);
    machine.replicate(middle, last, 3_000);
    machine.ask(primary, "DEHYDRATOR.PUSH k 600000 a 1");
    machine.advance(20_000);
    assert_equal(&mut machine, primary, middle);
    assert_equal(&mut machine, middle, last);

    // Other data come down the chain.
    let other = machine.start(&[]);
    machine.ask(other, "DEHYDRATOR.PUSH j 600000 a 1");
    machine.replicate(other, middle, 1_000);
    machine.advance(20_000);
    assert_equal(&mut machine, other, middle);
    assert_equal(&mut machine, middle, last);

    // The last one follows a primary that it does not know, without all data.
    machine.promote(middle);
    machine.ask(middle, "DEHYDRATOR.PUSH j 600000 b 2");
    machine.advance(20_000);
    assert_equal(&mut machine, middle, last);
}

#[test]
fn an_append_only_file_that_is_cut_anywhere_is_a_prefix_of_what_happened() {
    for (kind, preamble) in [(Kind::Redis70, "yes"), (Kind::Valkey9, "no")] {
        let mut machine = Machine::new(&library(), kind, 7);
        let s = machine.start(&[("appendonly", "yes"), ("aof-use-rdb-preamble", preamble)]);
        for id in 0..5 {
            machine.ask(s, &format!("DEHYDRATOR.PUSH k 600000 element {id} GROUP g"));
        }
        machine.ask(s, "DEHYDRATOR.PUSH j 0 element id");
        machine.ask(s, "DEHYDRATOR.POLL j LEASE 60000 TOKEN mine");
        machine.rewrite_aof(s);
        machine.advance(1_000_000);
        for id in 5..9 {
            machine.ask(s, &format!("DEHYDRATOR.PUSH k 600000 element {id}"));
        }
        let digests = [b"k", b"j"].map(|key| machine.digest(s, 0, key));
        let (file, base) = (machine.aof(s), machine.aof_base(s));
        assert!(base > 100 && file.len() > base + 100);
        let mut lengths = Vec::new();
        for end in (base..=file.len()).step_by(7).chain([file.len()]) {
            machine.restart(s, &Image::Aof(file[..end].to_vec()));
            let Reply::Int(length) = machine.ask(s, "DEHYDRATOR.LEN k") else { panic!() };
            lengths.push(length);
            assert_eq!(machine.disobeyed(s), Vec::<String>::new());
        }
        assert!(lengths.is_sorted());
        assert_eq!((lengths[0], lengths.last()), (5, Some(&9)));
        assert_eq!([b"k", b"j"].map(|key| machine.digest(s, 0, key)), digests);
        let snapshot = machine.rdb(s);
        machine.restart(s, &Image::Rdb(snapshot));
        assert_eq!([b"k", b"j"].map(|key| machine.digest(s, 0, key)), digests);
        machine.restart(s, &Image::Empty);
        assert_eq!(machine.ask(s, "DBSIZE"), Reply::Int(0));
    }
}

#[test]
fn a_slot_moves_with_its_keys() {
    for kind in KINDS {
        let mut machine = Machine::new(&library(), kind, 7);
        let nodes = [0, 1].map(|_| machine.start(&[("cluster-enabled", "yes")]));
        let half = SLOTS / 2;
        machine.set_slots(nodes[0], |slot| slot < half);
        machine.set_slots(nodes[1], |slot| slot >= half);
        let slot = slot_of(b"k");
        let (from, to) = if slot < half { (nodes[0], nodes[1]) } else { (nodes[1], nodes[0]) };
        machine.ask(from, "DEHYDRATOR.PUSH k 600000 a 1");
        let refused = machine.ask(to, "DEHYDRATOR.PUSH k 600000 a 1");
        assert!(matches!(refused, Reply::Error(text) if text.starts_with(b"MOVED")));
        let sleeper = machine.connect(from);
        machine.send(sleeper, &[b"DEHYDRATOR.POLL", b"k", b"BLOCK", b"0"]);
        machine.settle();
        machine.move_slot(slot, from, to);
        assert_eq!(machine.ask(to, "DEHYDRATOR.LEN k"), Reply::Int(1));
        machine.advance(300_000);
        let sent_away = machine.replies(sleeper);
        assert!(matches!(&sent_away[..], [Reply::Error(_)]), "{sent_away:?}");
    }
}

#[test]
fn what_a_client_was_given_that_is_killed_before_its_reply_is_given_back() {
    for kind in KINDS {
        let mut machine = Machine::new(&library(), kind, 7);
        let s = machine.start(&[("appendonly", "yes")]);
        machine.record(s, true);
        let sleeper = machine.connect(s);
        machine.send(sleeper, &[b"DEHYDRATOR.POLL", b"k", b"BLOCK", b"0"]);
        machine.settle();
        let other = machine.connect(s);
        machine.send(other, &[b"DEHYDRATOR.PUSH", b"k", b"0", b"element", b"1"]);
        // Until the element is taken, which the file hears; Redis 7.0 replies in the same pass, others in the next.
        let mut taken = Vec::new();
        while !taken.iter().any(|it: &Propagated| it.words[0] == b"DEHYDRATOR.REM") {
            machine.pass(s);
            taken.extend(machine.stream(s));
        }
        let id = machine.id_of(sleeper).to_string();
        machine.send(other, &[b"CLIENT", b"KILL", b"ID", id.as_bytes()]);
        machine.advance(100_000);
        let replies = machine.replies(sleeper);
        let left = machine.ask(s, "DEHYDRATOR.LEN k");
        match kind {
            Kind::Redis70 => assert_eq!((replies.len(), left), (1, Reply::Int(0))),
            _ => assert_eq!((replies.len(), left), (0, Reply::Int(1))),
        }
    }
}

#[test]
fn one_seed_is_one_history() {
    let play = |seed| {
        let mut machine = Machine::new(&library(), Kind::Redis8, seed);
        let s = machine.start(&[]);
        let clients: Vec<_> = (0..3).map(|_| machine.connect(s)).collect();
        let mut all = Vec::new();
        for at in 0..200_u64 {
            let c = clients[at as usize % 3];
            machine.send(c, &[b"DEHYDRATOR.GIDPUSH", b"k", b"5", b"element"]);
            machine.send(c, &[b"DEHYDRATOR.POLL", b"k", b"LEASE", b"50"]);
            machine.advance(1_700);
            clients.iter().for_each(|c| all.push(machine.replies(*c)));
        }
        (all, machine.monotonic_us(), machine.memory(s))
    };
    let (one, other) = (play(1), play(1));
    assert_eq!(one.0.len(), other.0.len());
    for (at, (one, other)) in one.0.iter().zip(&other.0).enumerate() {
        assert_eq!(one, other, "{at}");
    }
    assert_eq!((one.1, one.2), (other.1, other.2));
    assert_ne!(play(1).0, play(2).0);
}
