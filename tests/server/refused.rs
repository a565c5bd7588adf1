//! While the server refuses writes of its clients, it serves no blocked client and delivers nothing.

use redis::{Connection, Value};

use crate::sleeper::{Sleeper, waiters};
use harness::{Ask, Server, cmd, text, until};

/// Makes everything that happens by itself due while writes are refused: it waits. Then it continues by itself.
fn all_waits_until_lifted(server: &Server, refuse: impl FnOnce(), lift: impl FnOnce()) {
    let mut client = server.connect();
    let sleeper = Sleeper::start(server, "DEHYDRATOR.POLL plain BLOCK 0");
    let leaser = Sleeper::start(server, "DEHYDRATOR.POLL leased BLOCK 0 LEASE 60000");
    client.ask("DEHYDRATOR.ONDUE dropped DROP");
    client.ask("DEHYDRATOR.ONDUE published PUBLISH channel");
    client.ask("DEHYDRATOR.ONDUE streamed STREAM s");
    let keys = ["plain", "leased", "dropped", "published", "streamed"];
    for key in keys {
        client.ask(&format!("DEHYDRATOR.PUSH {key} 4000 element id"));
    }
    refuse();
    let is_due = |client: &mut Connection, key: &str| {
        client.ask(&format!("DEHYDRATOR.TTN {key}")) == Value::Int(0)
    };
    for key in keys {
        until(&format!("{key} is due, and stays"), || is_due(&mut client, key).then_some(()));
    }
    let ticks = server.info("dehydrator", "dehydrator_ticks");
    until("some time has passed", || {
        (server.info("dehydrator", "dehydrator_ticks") > ticks + 5).then_some(())
    });
    for key in keys {
        let length = client.ask(&format!("DEHYDRATOR.LEN {key}"));
        assert_eq!(length, Value::Int(1), "{key} was delivered");
    }
    assert_eq!(waiters(server), 2);
    assert!(!sleeper.is_awake() && !leaser.is_awake());
    lift();
    assert_eq!(sleeper.reply(), Value::Array(vec![text("element")]));
    assert!(matches!(leaser.reply(), Value::Array(leased) if leased.len() == 1));
    for key in ["plain", "dropped", "published", "streamed"] {
        until(&format!("{key} is empty"), || {
            (client.ask(&format!("DEHYDRATOR.LEN {key}")) == Value::Int(0)).then_some(())
        });
    }
    assert_eq!(client.ask("XLEN s"), Value::Int(1));
}

#[test]
fn with_too_few_replicas_everything_waits() {
    let server = Server::start(&[]);
    all_waits_until_lifted(
        &server,
        || drop(server.connect().ask("CONFIG SET min-replicas-to-write 1")),
        || drop(server.connect().ask("CONFIG SET min-replicas-to-write 0")),
    );
}

/// In one write, so in one pass: what was pushed is due when nobody may write any more.
#[test]
fn a_push_wakes_nobody_if_writes_are_refused_by_the_end_of_its_pass() {
    let (server, mut client) = Server::with_client(&[]);
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    let mut pipe = redis::pipe();
    pipe.add_command(cmd("DEHYDRATOR.PUSH k 0 element id"));
    pipe.add_command(cmd("CONFIG SET min-replicas-to-write 1"));
    pipe.exec(&mut client).expect("OK twice");
    let ticks = server.info("dehydrator", "dehydrator_ticks");
    until("some time has passed", || {
        (server.info("dehydrator", "dehydrator_ticks") > ticks + 2).then_some(())
    });
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    assert!(!sleeper.is_awake());
    client.ask("CONFIG SET min-replicas-to-write 0");
    assert_eq!(sleeper.reply(), Value::Array(vec![text("element")]));
}

#[test]
fn with_a_failing_disk_everything_waits() {
    let (server, mut client) =
        Server::with_client(&["--save", "3600 1000000", "--enable-protected-configs", "yes"]);
    let save = |server: &Server| {
        server.connect().ask("BGSAVE");
        until("it has saved, or failed to", || {
            (server.info("persistence", "rdb_bgsave_in_progress") == 0).then_some(())
        });
    };
    // A folder in the place of the file.
    let blocked = server.file("blocked.rdb");
    std::fs::create_dir(&blocked).expect("a folder");
    std::fs::write(blocked.join("file"), "so that nothing replaces it").expect("a file");
    client.ask("SET something text");
    // A save may take longer than the elements wait: it has failed before, which counts at once.
    client.ask("CONFIG SET stop-writes-on-bgsave-error no dbfilename blocked.rdb");
    save(&server);
    all_waits_until_lifted(
        &server,
        || {
            server.connect().ask("CONFIG SET stop-writes-on-bgsave-error yes");
            let refused = server.connect().refused("SET other text");
            assert!(refused.starts_with("MISCONF"), "{refused}");
        },
        || {
            server.connect().ask("CONFIG SET dbfilename dump.rdb");
            save(&server);
        },
    );
}

#[test]
fn with_a_failing_fork_everything_waits() {
    let server = Server::start_with_clock(&["--save", "3600 1000000"]);
    all_waits_until_lifted(
        &server,
        || {
            // It was idle until now: no replica listens, and nothing has failed.
            server.fail_forks(true);
            server.connect().refused("BGSAVE");
            let refused = server.connect().refused("SET other text");
            assert!(refused.starts_with("MISCONF"), "{refused}");
        },
        || {
            server.fail_forks(false);
            server.connect().ask("BGSAVE");
            until("clients may write", || {
                cmd("SET other text").query::<Value>(&mut server.connect()).ok()
            });
        },
    );
}

/// Returns the names and counts of the commands that the server has run.
fn commandstats(client: &mut Connection) -> String {
    let Value::BulkString(text) = client.ask("INFO commandstats") else { panic!("text") };
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn the_modules_own_calls_appear_in_no_statistics() {
    // A replica is attached, so that effects are replicated.
    let server = Server::start_with_port(&["--notify-keyspace-events", "KEAmn"]);
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE dropped DROP");
    client.ask("CONFIG RESETSTAT");
    let misses = server.info("stats", "keyspace_misses");
    let mut monitor = server.connect();
    monitor.ask("MONITOR");
    let sleeper = Sleeper::start(&server, "DEHYDRATOR.POLL k BLOCK 0");
    client.ask("DEHYDRATOR.PUSH dropped 0 element id");
    until("it is dropped", || {
        (client.ask("DEHYDRATOR.LEN dropped") == Value::Int(0)).then_some(())
    });
    let ticks = server.info("dehydrator", "dehydrator_ticks");
    until("the tick has looked at what is waited for", || {
        (server.info("dehydrator", "dehydrator_ticks") > ticks + 2).then_some(())
    });
    // Before the key is deleted: Redis 8.6 itself counts a miss when a module signals that a deleted key has changed.
    assert_eq!(server.info("stats", "keyspace_misses"), misses);
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(sleeper.reply(), Value::Array(vec![text("element")]));
    let stats = commandstats(&mut client);
    for line in stats.lines().filter(|line| line.starts_with("cmdstat_")) {
        let name = line["cmdstat_".len()..].split(':').next().expect("a name").to_lowercase();
        let asked =
            ["dehydrator.", "client|", "config|", "info", "monitor", "replconf", "hello", "select"];
        assert!(asked.iter().any(|it| name.starts_with(it)), "{line}");
        assert_ne!(name, "dehydrator.touch");
    }
    client.ask("ECHO the-end");
    loop {
        let line = format!("{:?}", monitor.recv_response().expect("a line"));
        if line.contains("the-end") {
            break;
        }
        for asked in ["TOUCH", "EXISTS", "PERSIST", "CONFIG\\\" \\\"GET"] {
            assert!(!line.contains(asked), "{line}");
        }
    }
}
