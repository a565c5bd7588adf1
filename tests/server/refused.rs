//! What the server refuses to its clients now, it refuses to those asleep, and to what is delivered.

use redis::{Connection, Value};

use crate::harness::{Ask, Server, text, until};
use crate::sleeper::{Sleeper, waiters};

/// Everything that happens by itself, made due while it is refused: it waits. Then it goes on by itself.
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
        assert_eq!(length, Value::Int(1), "{key} was given out");
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
fn with_too_few_replicas_all_waits() {
    let server = Server::start(&[]);
    all_waits_until_lifted(
        &server,
        || drop(server.connect().ask("CONFIG SET min-replicas-to-write 1")),
        || drop(server.connect().ask("CONFIG SET min-replicas-to-write 0")),
    );
}

#[test]
fn with_a_disk_that_fails_all_waits() {
    let server = Server::start(&["--save", "3600 1000000", "--enable-protected-configs", "yes"]);
    let mut client = server.connect();
    let save = |server: &Server| {
        server.connect().ask("BGSAVE");
        until("it has saved, or failed to", || {
            (server.info("persistence", "rdb_bgsave_in_progress") == 0).then_some(())
        });
    };
    // A folder where the file should be.
    let blocked = server.file("blocked.rdb");
    std::fs::create_dir(&blocked).expect("a folder");
    std::fs::write(blocked.join("file"), "so that nothing replaces it").expect("a file");
    client.ask("SET something text");
    all_waits_until_lifted(
        &server,
        || {
            server.connect().ask("CONFIG SET dbfilename blocked.rdb");
            save(&server);
            let refused = server.connect().refused("SET other text");
            assert!(refused.starts_with("MISCONF"), "{refused}");
        },
        || {
            server.connect().ask("CONFIG SET dbfilename dump.rdb");
            save(&server);
        },
    );
}
