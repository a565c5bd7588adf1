//! Memory comes back, and is told truly.

use redis::Connection;

use crate::harness::{Ask, Server, until};

/// Pushes with an id of 16 bytes and an element of 64.
fn push_many(client: &mut Connection, ids: std::ops::Range<u32>) {
    for chunk in ids.collect::<Vec<_>>().chunks(10_000) {
        let mut pipe = redis::pipe();
        for id in chunk {
            let ttl = 600_000 + id % 8;
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg(&[b'x'; 64]).arg(format!("{id:016}"));
        }
        pipe.exec(client).expect("pushes");
    }
}

fn remove_many(client: &mut Connection, ids: impl Iterator<Item = u32>) {
    for chunk in ids.collect::<Vec<_>>().chunks(1000) {
        let mut command = redis::cmd("DEHYDRATOR.REM");
        command.arg("k");
        for id in chunk {
            command.arg(format!("{id:016}"));
        }
        assert_eq!(command.query(client), Ok(chunk.len()));
    }
}

fn usage(client: &mut Connection) -> u64 {
    redis::cmd("MEMORY").arg("USAGE").arg("k").query(client).expect("a number")
}

/// Asserts that `told` is within 15 % of the truth.
fn assert_near(what: &str, told: u64, truth: u64) {
    let ratio = told as f64 / truth as f64;
    assert!((0.85..1.15).contains(&ratio), "{what}: told {told} bytes, in truth {truth}");
}

#[test]
fn memory_usage_is_near_the_truth_for_many_elements() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let before = client.info("memory", "used_memory");
    let mut count = 0;
    for upto in [40_000, 120_000, 300_000] {
        push_many(&mut client, count..upto);
        count = upto;
        let truth = client.info("memory", "used_memory") - before;
        assert_near(&format!("{count} elements"), usage(&mut client), truth);
    }
}

#[test]
fn memory_usage_is_near_the_truth_for_many_small_dehydrators() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    // What the server's own table takes for a key is in the truth, but not all of it in what it tells.
    let before = client.info("memory", "used_memory");
    let mut pipe = redis::pipe();
    for key in 0..5000 {
        pipe.cmd("SET").arg(key).arg(1);
    }
    pipe.exec(&mut client).expect("OK");
    let flush = |client: &mut Connection| {
        client.ask("FLUSHALL");
        // Some servers free in the background, and a busy machine does that late.
        until("all is freed", || {
            (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
        });
    };
    let told: u64 = redis::cmd("MEMORY").arg("USAGE").arg(77).query(&mut client).expect("it");
    let untold = client.info("memory", "used_memory") - before - told * 5000;
    flush(&mut client);
    let before = client.info("memory", "used_memory");
    for elements in [1, 3, 10, 40] {
        let mut pipe = redis::pipe();
        for key in 0..5000 {
            for id in 0..elements {
                pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg(&[b'x'; 64]).arg(id);
            }
        }
        pipe.exec(&mut client).expect("pushes");
        let truth = client.info("memory", "used_memory") - before;
        let told: u64 = redis::cmd("MEMORY").arg("USAGE").arg(77).query(&mut client).expect("it");
        assert_near(&format!("{elements} elements each"), told * 5000 + untold, truth);
        flush(&mut client);
    }
}

#[test]
fn a_burst_gives_its_memory_back_within_a_few_ticks() {
    let server = Server::start(&["--hz", "100"]);
    let mut client = server.connect();
    push_many(&mut client, 0..200_000);
    let full = usage(&mut client);
    // Every 20th stays: each page keeps some, so none can simply be dropped.
    remove_many(&mut client, (0..200_000).filter(|id| id % 20 != 0));
    let before = client.digest("k");
    let left = until("the tick has tidied up", || {
        let left = usage(&mut client);
        (server.info("dehydrator", "dehydrator_untidy") == 0).then_some(left)
    });
    assert!(left * 8 < full, "{left} of {full} bytes are left for a twentieth");
    assert_eq!(client.digest("k"), before, "tidying changed something");
    assert!(server.info("dehydrator", "dehydrator_tidied") > 0);
    // A budget of one millisecond, give or take what the machine does to us meanwhile.
    let longest = server.info("dehydrator", "dehydrator_tick_longest_us");
    assert!(longest < 50_000, "a tick took {longest} us");
}

#[test]
fn nothing_leaks() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let mut cycle = || {
        push_many(&mut client, 0..20_000);
        remove_many(&mut client, 0..5000);
        client.ask("COPY k copy");
        client.ask("DEBUG RELOAD");
        client.ask("DEHYDRATOR.POLL k");
        client.ask("DEL k");
        client.ask("FLUSHALL");
        // Some servers free in the background, unasked.
        until("all is freed", || {
            (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
        });
        client.info("memory", "used_memory")
    };
    let first = cycle();
    let last = (0..10).map(|_| cycle()).last().expect("ten cycles");
    assert!(last < first + 500_000, "{first} bytes after one cycle, {last} after eleven");
}

#[test]
fn memory_comes_back_after_updates_too() {
    let server = Server::start(&["--hz", "100"]);
    let mut client = server.connect();
    push_many(&mut client, 0..50_000);
    let full = usage(&mut client);
    for first in (0..50_000).step_by(10_000) {
        let mut pipe = redis::pipe();
        for id in first..first + 10_000 {
            pipe.cmd("DEHYDRATOR.UPDATE").arg("k").arg(format!("{id:016}")).arg("x");
        }
        pipe.exec(&mut client).expect("updates");
    }
    until("the tick has tidied up", || {
        (server.info("dehydrator", "dehydrator_untidy") == 0).then_some(())
    });
    let left = usage(&mut client);
    assert!(left * 10 < full * 8, "{left} of {full} bytes are left");
}

#[test]
fn a_sparse_dehydrator_that_was_renamed_is_tidied_when_it_is_next_written_to() {
    let server = Server::start(&["--hz", "10"]);
    let mut client = server.connect();
    push_many(&mut client, 0..50_000);
    let full = usage(&mut client);
    client.ask("MULTI");
    for chunk in (0..50_000).filter(|id| id % 20 != 0).collect::<Vec<_>>().chunks(1000) {
        let mut command = redis::cmd("DEHYDRATOR.REM");
        command.arg("k");
        for id in chunk {
            command.arg(format!("{id:016}"));
        }
        command.exec(&mut client).expect("queued");
    }
    client.ask("RENAME k elsewhere");
    client.ask("EXEC");
    client.ask("RENAME elsewhere k");
    // Finds nothing to pull.
    client.ask("DEHYDRATOR.PULL k nobody");
    until("the tick has tidied up", || (usage(&mut client) * 8 < full).then_some(()));
}

#[test]
fn thousands_of_sparse_dehydrators_are_all_tidied() {
    let server = Server::start(&["--hz", "100"]);
    let mut client = server.connect();
    let keys = 3000;
    for key in 0..keys {
        let mut pipe = redis::pipe();
        for id in 0..60 {
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000).arg(&[b'x'; 64]).arg(id);
        }
        pipe.exec(&mut client).expect("pushes");
    }
    let mut pipe = redis::pipe();
    pipe.atomic();
    for key in 0..keys {
        pipe.cmd("DEHYDRATOR.REM").arg(key).arg((0..57).collect::<Vec<_>>());
    }
    pipe.exec(&mut client).expect("removals");
    until("the ticks have tidied up", || {
        (server.info("dehydrator", "dehydrator_untidy") == 0).then_some(())
    });
    assert!(server.info("dehydrator", "dehydrator_tidied") >= keys);
}

/// Of the servers that Debian packages none is built with it: they use the system's allocator, and the
/// server says so. `DEHYDRATOR_SERVER=/path/to/redis-server` names one that is.
#[test]
fn active_defragmentation_moves_dehydrators_and_changes_nothing() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let enabled = redis::cmd("CONFIG").arg("SET").arg("activedefrag").arg("yes").exec(&mut client);
    if let Err(error) = enabled {
        assert!(error.to_string().contains("Active defragmentation cannot be enabled"), "{error}");
        return;
    }
    client.ask("CONFIG SET activedefrag no");
    for (setting, value) in [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "1"),
        ("active-defrag-cycle-min", "50"),
        ("active-defrag-cycle-max", "75"),
        // What takes more allocations than this is moved in steps.
        ("active-defrag-max-scan-fields", "50"),
    ] {
        client.ask(&format!("CONFIG SET {setting} {value}"));
    }
    // Many small ones, most of which go, and one large one with as many ids.
    for first in (0..60_000).step_by(2000) {
        let mut pipe = redis::pipe();
        for key in first..first + 2000 {
            for id in 0..4 {
                pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000 + id).arg(&[b'x'; 64]).arg(id);
            }
        }
        pipe.exec(&mut client).expect("pushes");
    }
    push_many(&mut client, 0..60_000);
    let mut pipe = redis::pipe();
    for key in (0..60_000).filter(|key| key % 10 != 0) {
        pipe.cmd("DEL").arg(key);
    }
    pipe.exec(&mut client).expect("numbers");
    let before = client.ask("DEBUG DIGEST");
    client.ask("CONFIG SET activedefrag yes");
    // 6,000 small ones are left, of two allocations and the server's own for each, and 240 pages. Some servers move them
    // in rounds without end, and some, as Redis 8.2, stop when each has been moved.
    until("everything has been moved", || {
        (client.info("stats", "active_defrag_key_hits") > 6000
            && client.info("stats", "active_defrag_hits") > 15_000)
            .then_some(())
    });
    assert_eq!(client.ask("DEBUG DIGEST"), before);
    for key in (0..60_000).step_by(10) {
        redis::cmd("DEHYDRATOR.REM").arg(key).arg(0).exec(&mut client).expect("a number");
        redis::cmd("DEHYDRATOR.PUSH")
            .arg(&[key.to_string(), "0".into(), "e".into(), "new".into()])
            .exec(&mut client)
            .expect("OK");
    }
    assert_eq!(client.ask("DEHYDRATOR.POLL 10"), crate::harness::texts(&["e"]));
}
