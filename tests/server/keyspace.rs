//! A dehydrator among other keys.

use redis::Value;

use harness::{Ask, Server, text, texts, until};

#[test]
fn an_emptied_dehydrator_is_deleted_with_its_event() {
    let (server, mut client) = Server::with_client(&["--notify-keyspace-events", "KEA"]);
    let mut listener = server.connect();
    listener.ask("CONFIG SET notify-keyspace-events KEA");
    let mut events = listener.as_pubsub();
    events.psubscribe("__keyevent@0__:*").expect("a subscription");
    for take in ["POLL k", "PULL k id", "XACK k id other", "REM k id other"] {
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        client.ask(&format!("DEHYDRATOR.{take}"));
        assert!(!client.exists("k"), "after {take}");
        let verb = take.split(' ').next().expect("a verb").to_lowercase();
        for expected in ["dehydrator.push", &format!("dehydrator.{verb}"), "del"] {
            // The event that it is due may come before it is taken, or not.
            let name = std::iter::repeat_with(|| {
                let event = events.get_message().expect("an event");
                event.get_channel_name().split_once(':').expect("a name").1.to_owned()
            });
            assert_eq!(name.into_iter().find(|name| name != "dehydrator.due").unwrap(), expected);
        }
    }
}

#[test]
fn a_write_that_changes_nothing_breaks_no_watch_and_is_not_propagated() {
    let server = Server::start(&["--appendonly", "yes"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("SET s text");
    let idle = [
        "DEHYDRATOR.POLL k",
        "DEHYDRATOR.PULL k nobody",
        "DEHYDRATOR.XACK k id nobody",
        "DEHYDRATOR.REM k nobody",
        "DEHYDRATOR.XPOLL k",
        "DEHYDRATOR.LOOK k id",
        "DEHYDRATOR.TTN k",
        "DEHYDRATOR.PUSH k 5 element id NX",
        "DEHYDRATOR.MPUSH k 5 element id NX",
        "DEHYDRATOR.TOUCH k 5 nobody",
        "DEHYDRATOR.TOUCH k 5 GT id",
        "DEHYDRATOR.SCAN k 0",
    ];
    let refused = ["DEHYDRATOR.PUSH k 5 element id", "DEHYDRATOR.UPDATE k nobody element"];
    for line in idle.iter().chain(&refused) {
        let offset = |client: &mut _| Ask::ask(client, "DEBUG DIGEST-VALUE k");
        let before =
            (server.info("persistence", "rdb_changes_since_last_save"), offset(&mut other));
        client.ask("WATCH k");
        if refused.contains(line) {
            drop(other.refused(line))
        } else {
            drop(other.ask(line))
        }
        client.ask("MULTI");
        client.ask("PING");
        assert_ne!(client.ask("EXEC"), Value::Nil, "{line} broke a WATCH");
        let after = (server.info("persistence", "rdb_changes_since_last_save"), offset(&mut other));
        assert_eq!(before, after, "{line} left the data dirty");
    }
    for line in [
        "DEHYDRATOR.PUSH k 5 element id2",
        "DEHYDRATOR.UPDATE k id other",
        "DEHYDRATOR.TOUCH k 5 id",
        "DEHYDRATOR.PUSH k 5 element id REPLACE",
        "DEHYDRATOR.MPUSH k 5 element id 5 element id3 NX",
        "DEHYDRATOR.PULL k id2",
        "DEHYDRATOR.REM k id",
    ] {
        client.ask("WATCH k");
        other.ask(line);
        client.ask("MULTI");
        client.ask("PING");
        assert_eq!(client.ask("EXEC"), Value::Nil, "{line} did not break a WATCH");
    }
}

#[test]
fn copies_are_equal_and_independent() {
    let (_server, mut client) = Server::with_client(&[]);
    for number in 0..500 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} {number}", number % 7 * 1000));
    }
    client.ask("COPY k copy");
    assert_eq!(client.digest("copy"), client.digest("k"));
    client.ask("DEHYDRATOR.PULL copy 1");
    assert_ne!(client.digest("copy"), client.digest("k"));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k 1"), text("element-1"));
    client.ask("RENAME k renamed");
    assert_eq!(client.ask("DEHYDRATOR.LOOK renamed 1"), text("element-1"));
    client.ask("COPY renamed other DB 3");
    client.ask("UNLINK renamed copy");
    assert_eq!(client.ask("DBSIZE"), Value::Int(0));
    client.ask("SELECT 3");
    assert_eq!(client.ask("DEHYDRATOR.LOOK other 1"), text("element-1"));
    client.ask("FLUSHALL");
    assert_eq!(client.ask("DEHYDRATOR.POLL other"), texts(&[]));
}

#[test]
fn a_dump_restores_the_same_dehydrator() {
    let (_server, mut client) = Server::with_client(&[]);
    for number in 0..2000 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} {number}", number % 9 * 10));
    }
    let Value::BulkString(dump) = client.ask("DUMP k") else { panic!("a dump") };
    let restore = |key: &str, dump: &[u8], client: &mut redis::Connection| {
        redis::cmd("RESTORE").arg(key).arg(0).arg(dump).query::<Value>(client)
    };
    restore("again", &dump, &mut client).expect("our own dump");
    assert_eq!(client.digest("again"), client.digest("k"));

    // Truncated or mutated, with the checksum off so that it reaches the module: it is refused or loads, but never
    // crashes the server.
    client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    // The last ten bytes are version and checksum: without them, the data is complete.
    for length in (0..dump.len() - 10).step_by(dump.len() / 200) {
        assert!(restore("cut", &dump[..length], &mut client).is_err(), "{length} bytes");
    }
    let mut random = 42_u64;
    for _ in 0..3000 {
        let mut mutant = dump.clone();
        for _ in 0..3 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Except the type and module id at the start, and version and checksum at the end.
            let at = 10 + (random >> 33) as usize % (dump.len() - 20);
            mutant[at] = (random >> 20) as u8;
        }
        if restore("mutant", &mutant, &mut client).is_ok() {
            client.ask("DEHYDRATOR.POLL mutant");
            client.ask("DEL mutant");
        }
    }
    assert!(!client.exists("cut"));
    assert_eq!(client.ask("PING"), Value::SimpleString("PONG".into()));
}

/// Fills a dehydrator with some hundreds of kilobytes. In one transaction, so that it is not evicted half filled.
fn fill(client: &mut redis::Connection, key: &str) {
    let mut pipe = redis::pipe();
    pipe.atomic();
    for id in 0..3000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000 + id % 7).arg(&[b'x'; 100]).arg(id);
    }
    pipe.exec(client).expect("pushes");
}

#[test]
fn a_large_dehydrator_is_freed_in_the_background() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut pipe = redis::pipe();
    for id in 0..60_000 {
        pipe.cmd("DEHYDRATOR.PUSH").arg("large").arg(600_000).arg(&[b'x'; 100]).arg(id);
    }
    pipe.exec(&mut client).expect("pushes");
    let freed = client.info("memory", "lazyfreed_objects");
    client.ask("UNLINK large");
    until("it is freed", || {
        (client.info("memory", "lazyfreed_objects") == freed + 1).then_some(())
    });
    client.ask("DEHYDRATOR.PUSH small 600000 element id");
    client.ask("UNLINK small");
    client.ask("FLUSHALL ASYNC");
    until("all is freed", || {
        (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
    });
    assert!(client.info("memory", "used_memory") < 5_000_000);
}

#[test]
fn every_eviction_policy_evicts_whole_dehydrators_and_keeps_the_rest() {
    for policy in [
        "allkeys-lru",
        "allkeys-lfu",
        "allkeys-random",
        "volatile-lru",
        "volatile-lfu",
        "volatile-random",
        "volatile-ttl",
    ] {
        let (_server, mut client) =
            Server::with_client(&["--maxmemory", "12mb", "--maxmemory-policy", policy]);
        for key in 0..60 {
            fill(&mut client, &format!("k{key}"));
            client.ask(&format!("EXPIRE k{key} {}", 1000 + key));
        }
        assert!(client.info("stats", "evicted_keys") > 10, "{policy}");
        client.ask("CONFIG SET maxmemory 0");
        let Value::Int(left) = client.ask("DBSIZE") else { panic!("a number") };
        assert!((5..60).contains(&left), "{policy}: {left} keys are left");
        let whole = (0..60).filter(|key| {
            let length = client.ask(&format!("DEHYDRATOR.REM k{key} 0 1 2 2999"));
            assert!([Value::Int(0), Value::Int(4)].contains(&length), "{policy}: {length:?}");
            length == Value::Int(4)
        });
        assert_eq!(whole.count() as i64, left, "{policy}");
    }
}

#[test]
fn a_key_expires_with_all_its_elements() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("PEXPIRE k 20");
    until("it has expired", || (!client.exists("k")).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LOOK k id"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.PULL k id"), Value::Nil);
    client.ask("DEHYDRATOR.PUSH k 600000 again id");
    assert_eq!(client.ask("PTTL k"), Value::Int(-1));
    // A push to a key with a time to live does not change it.
    client.ask("PEXPIRE k 500000");
    client.ask("DEHYDRATOR.PUSH k 600000 more id2");
    assert_ne!(client.ask("PTTL k"), Value::Int(-1));
}

#[test]
fn object_type_and_scan_know_the_type() {
    let (_server, mut client) = Server::with_client(&["--maxmemory-policy", "allkeys-lfu"]);
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("SET s text");
    let Value::Int(before) = client.ask("OBJECT FREQ k") else { panic!("a number") };
    for _ in 0..2000 {
        client.ask("DEHYDRATOR.LOOK k id");
    }
    let Value::Int(after) = client.ask("OBJECT FREQ k") else { panic!("a number") };
    assert!(after > before, "{before}, then {after}");
    client.ask("CONFIG SET maxmemory-policy allkeys-lru");
    client.ask("DEHYDRATOR.LOOK k id");
    assert!(matches!(client.ask("OBJECT IDLETIME k"), Value::Int(0..5)));
    assert_eq!(client.ask("TYPE k"), Value::SimpleString("dehy-type".into()));
    let Value::Array(scan) = client.ask("SCAN 0 TYPE dehy-type") else { panic!("an array") };
    assert_eq!(scan[1], texts(&["k"]));
}

#[test]
fn dehydrators_survive_moves_between_databases_and_swaps() {
    let (_server, mut client) = Server::with_client(&[]);
    fill(&mut client, "k");
    let digest = client.digest("k");
    client.ask("MOVE k 1");
    client.ask("SELECT 1");
    assert_eq!(client.digest("k"), digest);
    client.ask("SWAPDB 1 2");
    assert!(!client.exists("k"));
    client.ask("SELECT 2");
    assert_eq!(client.digest("k"), digest);
    client.ask("DEBUG RELOAD");
    assert_eq!(client.digest("k"), digest);
    client.ask("FLUSHDB ASYNC");
    assert!(!client.exists("k"));
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("FLUSHALL SYNC");
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
}

#[test]
fn functions_replicate_effects_like_scripts() {
    let (_server, mut client) = Server::with_client(&["--appendonly", "yes"]);
    let library = "#!lua name=lib
        redis.register_function('work', function(keys, args)
            redis.call('DEHYDRATOR.PUSH', keys[1], 0, 'first', 'a')
            redis.call('DEHYDRATOR.GIDPUSH', keys[1], 600000, 'second')
            return redis.call('DEHYDRATOR.POLL', keys[1])
        end)";
    redis::cmd("FUNCTION").arg("LOAD").arg(library).exec(&mut client).expect("a library");
    assert_eq!(client.ask("FCALL work 1 k"), texts(&["first"]));
    let digest = client.digest("k");
    client.ask("DEBUG LOADAOF");
    assert_eq!(client.digest("k"), digest);
}
