//! Versions of the module that meet: a replica, or a server with an append-only file, understands what it is told, or
//! ends and says so. Nothing becomes silently different.

use std::io::Write;
use std::path::Path;

use redis::Connection;

use crate::replication::{Load, assert_equal, catch_up, replica_of};
use harness::{Ask, Server, cmd, debug_module, previous_module, release_module, until};

/// A primary that speaks the language of a later version.
fn later(options: &[&str]) -> Server {
    let server = Server::start_debug(options);
    server.connect().ask("DEHYDRATOR.DEBUG k LEVEL 5");
    server
}

fn is_told_the_way_out(log: &str, of: &str) {
    let line = log.lines().find(|line| line.contains("silently different"));
    let line = line.unwrap_or_else(|| panic!("it ended without a word: {log}"));
    for part in [of, "later version of the module", "docs/operations.md"] {
        assert!(line.contains(part), "no '{part}' in {line}");
    }
}

#[test]
fn a_replica_ends_loudly_when_its_primary_asks_for_more_than_it_understands() {
    type Effect = fn(&mut Connection);
    let effects: [(&str, Effect); 4] = [
        ("a command", |client| drop(client.ask("DEHYDRATOR.PUSH k 5 element id"))),
        ("a transaction", |client| {
            for line in ["MULTI", "SET x y", "DEHYDRATOR.PUSH k 5 element id", "EXEC"] {
                client.ask(line);
            }
        }),
        ("a script", |client| {
            let script = "return redis.call('DEHYDRATOR.PUSH', KEYS[1], 5, 'element', 'id')";
            cmd("EVAL").arg(script).arg(1).arg("k").exec(client).expect("OK");
        }),
        ("a delivery", |client| {
            client.ask("DEHYDRATOR.ONDUE d DROP");
            client.ask("DEHYDRATOR.PUSH d 1 element id");
        }),
    ];
    for (what, effect) in effects {
        let primary = later(&[]);
        let mut replica = replica_of(&primary, &[]);
        effect(&mut primary.connect());
        let log = replica.wait_until_it_gives_up();
        is_told_the_way_out(&log, "level 4");
        assert!(log.contains("the primary"), "after {what}: {log}");
    }
}

#[test]
fn a_replica_that_comes_back_is_asked_again() {
    let primary = later(&["--repl-backlog-size", "100mb"]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.DEBUG k LEVEL 4");
    let mut replica = replica_of(&primary, &[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element first");
    catch_up(&primary, &replica);
    client.ask("DEHYDRATOR.DEBUG k LEVEL 5");
    let before = primary.info("stats", "sync_partial_ok");
    client.ask("CLIENT KILL TYPE replica");
    until("the link was mended", || {
        (primary.info("stats", "sync_partial_ok") > before).then_some(())
    });
    replica.wait_for_link();
    client.ask("DEHYDRATOR.PUSH k 600000 element second");
    is_told_the_way_out(&replica.wait_until_it_gives_up(), "level 4");
}

#[test]
fn a_promoted_replica_asks_its_former_primary() {
    let mut first = Server::start_with_port(&["--save", "3600 1"]);
    let second = Server::start_debug(&[]);
    second.follow(&first);
    Load::new(20).send(&mut first.connect(), 500);
    second.connect().ask("DEHYDRATOR.DEBUG k LEVEL 5");
    first.connect().ask("DEHYDRATOR.PUSH k 600000 element first");
    catch_up(&first, &second);
    first.connect().ask(&format!("FAILOVER TO 127.0.0.1 {}", second.port()));
    first.wait_for_link();
    second.connect().ask("DEHYDRATOR.TOUCH k first 700000");
    is_told_the_way_out(&first.wait_until_it_gives_up(), "level 4");
    // What it has is what it had understood. Once it is upgraded too, it is a replica as any other.
    first.relaunch_with(&debug_module());
    first.connect().ask("DEHYDRATOR.DEBUG k LEVEL 5");
    first.follow(&second);
    assert_equal(&second, &first);
    assert_eq!(first.connect().digest("k"), second.connect().digest("k"));
}

#[test]
fn a_server_ends_loudly_at_an_append_only_file_of_a_later_version() {
    for preamble in ["yes", "no"] {
        for rewritten in [false, true] {
            let options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
            let mut server = later(&options);
            let mut client = server.connect();
            client.ask("DEHYDRATOR.PUSH k 600000 element id");
            if rewritten {
                client.rewrite_aof();
                if preamble == "yes" {
                    // The file proper is an RDB, which says by itself what is in it.
                    client.ask("DEHYDRATOR.PUSH k 600000 element other");
                }
            }
            let log = server.restart_in_vain_with(&release_module());
            is_told_the_way_out(&log, "level 4");
            assert!(log.contains("append-only file"), "{log}");
        }
    }
}

#[test]
fn a_command_that_a_replica_cannot_parse_ends_it_loudly() {
    for unknown in ["DEHYDRATOR.ONDUE k SOMEWHERE", "DEHYDRATOR.LEASE k 5 KEY secret AT 9 id"] {
        for transaction in [false, true] {
            let primary = Server::start_debug(&[]);
            let mut replica = replica_of(&primary, &[]);
            let mut client = primary.connect();
            if transaction {
                client.ask("MULTI");
                client.ask("SET x y");
            }
            client.ask(&format!("DEHYDRATOR.DEBUG k SAY {unknown}"));
            if transaction {
                client.ask("EXEC");
            }
            let name = unknown.split(' ').next().expect("a name");
            is_told_the_way_out(&replica.wait_until_it_gives_up(), name);
        }
    }
}

#[test]
fn a_command_in_an_append_only_file_that_cannot_be_parsed_ends_the_server_loudly() {
    let mut server = Server::start_debug(&["--appendonly", "yes"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("DEHYDRATOR.DEBUG k SAY DEHYDRATOR.PUSH k 5 element other AT 9 WITH love");
    let log = server.restart_in_vain_with(&release_module());
    is_told_the_way_out(&log, "DEHYDRATOR.PUSH");
}

#[test]
fn what_clients_send_ends_nothing() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &["--replica-read-only", "no"]);
    for server in [&primary, &replica] {
        let mut client = server.connect();
        assert_eq!(client.ask("DEHYDRATOR.REQUIRE 4 0.1.0"), redis::Value::Okay);
        let refused = client.refused("DEHYDRATOR.REQUIRE 5 9.9.9");
        assert!(
            refused.contains("level 5 is required, and this version of the module has 4"),
            "{refused}"
        );
        client.refused("DEHYDRATOR.REQUIRE x");
        client.refused("DEHYDRATOR.ONDUE k SOMEWHERE");
        client.refused("DEHYDRATOR.LEASE k 5 KEY secret AT 9 id");
        client.ask("MULTI");
        client.ask("DEHYDRATOR.REQUIRE 4");
        client.ask("DEHYDRATOR.ONDUE k SOMEWHERE");
        let _: redis::RedisResult<redis::Value> = cmd("EXEC").query(&mut client);
        let script = "return redis.pcall('DEHYDRATOR.ONDUE', KEYS[1], 'SOMEWHERE')";
        let _: redis::RedisResult<redis::Value> =
            cmd("EVAL").arg(script).arg(1).arg("k").query(&mut client);
    }
    // What the primary sends is refused for other reasons, too, and that is not the end.
    replica.connect().ask("SET wrong type");
    primary.connect().ask("DEHYDRATOR.PUSH wrong 600000 element id");
    primary.connect().ask("DEHYDRATOR.PUSH k 600000 element id");
    catch_up(&primary, &replica);
}

#[test]
fn who_listens_is_asked_once() {
    let server = Server::start_with_port(&["--appendonly", "yes"]);
    let mut client = server.connect();
    let said = || {
        let folder = server.file("appendonlydir");
        let files = std::fs::read_dir(folder).expect("a folder").flatten();
        let files = files.map(|file| std::fs::read(file.path()).expect("a file"));
        let text = files.map(|file| String::from_utf8_lossy(&file).into_owned());
        text.map(|text| text.matches("DEHYDRATOR.REQUIRE").count()).sum::<usize>()
    };
    let push = |client: &mut Connection| {
        for id in 0..100 {
            client.ask(&format!("DEHYDRATOR.PUSH k 600000 element {id} REPLACE"));
        }
    };
    push(&mut client);
    assert_eq!(said(), 1);
    let _replica = replica_of(&server, &[]);
    push(&mut client);
    // The replica is an event of its own, and so are the beginning and the end of the process that saves for it.
    assert!((2..=5).contains(&said()), "{}", said());
}

#[test]
fn a_dump_of_a_later_version_is_refused_with_the_way_out() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PAUSE k");
    let mut dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    // Behind the kind and the module's name: a number, which says what features there are.
    const FEATURES: usize = 11;
    assert_eq!(dump[FEATURES], 4);
    // 512, as the server writes numbers from 64 on.
    dump.splice(FEATURES..=FEATURES, [0x42, 0]);
    let mut restore = redis::cmd("RESTORE");
    let refused = harness::refusal(restore.arg("key").arg(0).arg(dump), &mut client);
    assert!(refused.is_ok_and(|refused| refused.contains("Bad data format")));
    let log = server.log();
    for part in ["'key' was written by a later version of the module", "docs/operations.md"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
}

/// The version before this one, or `None` and a line that says so.
fn previous() -> Option<std::path::PathBuf> {
    let previous = previous_module();
    if previous.is_none() {
        // Straight to the terminal: what is printed in a test that passes is not shown.
        let _ = writeln!(std::io::stderr(), "skipped: this clone has no previous version");
    }
    previous
}

/// Old primary, new replica, failover, and the old primary is upgraded: what docs/operations.md says.
#[test]
fn an_upgrade_in_the_documented_order_keeps_all_servers_equal() {
    let Some(previous) = previous() else { return };
    let present = release_module();
    let mut first = Server::start_version(&previous, &["--save", "3600 1"]);
    let mut second = Server::start_version(&previous, &["--save", "3600 1"]);
    second.follow(&first);
    Load::new(21).send(&mut first.connect(), 2000);
    assert_equal(&first, &second);

    // The replica first.
    second.restart_with(&present);
    second.follow(&first);
    Load::new(22).send(&mut first.connect(), 2000);
    assert_equal(&first, &second);

    // It takes over. The former primary follows it, as Sentinel would have it, and does not understand all it hears.
    first.connect().ask(&format!("FAILOVER TO 127.0.0.1 {}", second.port()));
    first.wait_for_link();
    Load::new(23).send(&mut second.connect(), 2000);

    // It is upgraded, and begins with nothing.
    upgrade_on_an_empty_folder(&mut first, &present);
    first.follow(&second);
    assert_equal(&second, &first);
    Load::new(24).send(&mut second.connect(), 2000);
    assert_equal(&second, &first);
}

fn upgrade_on_an_empty_folder(server: &mut Server, module: &Path) {
    server.kill();
    let _ = std::fs::remove_file(server.file("dump.rdb"));
    server.relaunch_with(module);
}

/// A key whose policy came by RESTORE, which the version before this one knows nothing of.
fn restore_a_policy(client: &mut Connection) {
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let dump: Vec<u8> = cmd("DUMP k").query(client).expect("a dump");
    client.ask("DEL k");
    redis::cmd("RESTORE").arg("new").arg(0).arg(dump).exec(client).expect("OK");
}

/// What the page warns of: that version logs an error of the server's, goes on, and is different, also when it has
/// been upgraded; unless it then begins with nothing.
#[test]
fn the_version_before_this_one_is_left_different_if_it_follows_this_one() {
    let Some(previous) = previous() else { return };
    let primary = Server::start_with_port(&["--repl-backlog-size", "100mb"]);
    let port = primary.port().to_string();
    let options = ["--save", "3600 1", "--replicaof", "127.0.0.1", &port];
    let mut replica = Server::start_version(&previous, &options);
    replica.wait_for_link();
    let mut client = primary.connect();
    restore_a_policy(&mut client);
    Load::new(25).send(&mut client, 500);
    catch_up(&primary, &replica);
    let log = replica.log();
    assert!(log.contains("CRITICAL") && log.contains("DEHYDRATOR.REQUIRE"), "{log}");
    assert_ne!(replica.connect().digest("k0"), client.digest("k0"));
    assert_ne!(replica.connect().digest("new"), client.digest("new"));

    // By a partial resynchronization.
    replica.restart_with(&release_module());
    replica.wait_for_link();
    catch_up(&primary, &replica);
    assert!(primary.info("stats", "sync_partial_ok") > 0, "it was a full one");
    assert_ne!(replica.connect().digest("new"), client.digest("new"));

    upgrade_on_an_empty_folder(&mut replica, &release_module());
    replica.wait_for_link();
    assert_equal(&primary, &replica);
    assert_eq!(replica.connect().digest("new"), client.digest("new"));
}

#[test]
fn the_version_before_this_one_reads_a_dump_if_nothing_new_is_in_it() {
    let Some(previous) = previous() else { return };
    let mut server = Server::start_with_port(&["--save", "3600 1"]);
    let mut client = server.connect();
    Load::new(26).send(&mut client, 2000);
    client.ask("DEHYDRATOR.ONDUE bound STREAM s");
    client.ask("DEHYDRATOR.PUSH bound 600000 element id");
    let digests = |server: &Server| {
        let mut client = server.connect();
        ["k0", "k1", "k2", "bound"].map(|key| client.digest(key))
    };
    let before = digests(&server);
    server.restart_with(&previous);
    assert_eq!(digests(&server), before);
    server.restart_with(&release_module());
    assert_eq!(digests(&server), before);
    restore_a_policy(&mut server.connect());
    let log = server.restart_in_vain_with(&previous);
    assert!(log.contains("later version of the module"), "{log}");
}

/// Each thing that the version before this one knows nothing of, and how it comes to be in a key.
const NEWS: [(&str, &[&str]); 6] = [
    ("a list", &["ONDUE k LIST l", "PUSH k 600000 element id"]),
    ("dead letters to a list", &["ONDUE k HOLD DELIVERIES 5 LIST l LEFT"]),
    ("a limit", &["PUSH k 600000 element id", "LIMIT k LENGTH 5"]),
    ("a rate", &["LIMIT k RATE 5 PER 1000"]),
    ("ids that are remembered", &["LIMIT k REMEMBER 600000", "PUSH k 0 element id", "POLL k"]),
    (
        "a rejected letter",
        &[
            "ONDUE k HOLD DELIVERIES 5 STREAM s",
            "PUSH k 0 element id",
            "POLL k LEASE 600000 TOKEN me",
            // It cannot go.
            "MULTI",
            "DEL s",
            "SET s text",
            "REJECT k me id",
            "EXEC",
        ],
    ),
];

#[test]
fn the_version_before_this_one_refuses_a_dump_with_anything_new_in_it() {
    let Some(previous) = previous() else { return };
    for (what, lines) in NEWS {
        let mut server = Server::start_with_port(&["--save", "3600 1"]);
        let mut client = server.connect();
        for line in lines {
            let is_ours = !["MULTI", "EXEC", "DEL s", "SET s text"].contains(line);
            client.ask(&if is_ours { format!("DEHYDRATOR.{line}") } else { line.to_string() });
        }
        let before = client.digest("k");
        let log = server.restart_in_vain_with(&previous);
        assert!(log.contains("later version of the module"), "{what}: {log}");
        // The way out: the version that wrote it.
        server.relaunch_with(&release_module());
        assert_eq!(server.connect().digest("k"), before, "{what}");
    }
}

/// It logs an error of the server's for what it is told and does not understand: a replica is to be upgraded first.
#[test]
fn the_version_before_this_one_logs_what_is_new_if_it_follows_this_one() {
    let Some(previous) = previous() else { return };
    let primary = Server::start_with_port(&[]);
    let port = primary.port().to_string();
    let replica = Server::start_version(&previous, &["--replicaof", "127.0.0.1", &port]);
    replica.wait_for_link();
    let mut client = primary.connect();
    for (what, lines) in NEWS {
        client.ask("FLUSHALL");
        let before = replica.log().matches("CRITICAL").count();
        for line in lines {
            let is_ours = !["MULTI", "EXEC", "DEL s", "SET s text"].contains(line);
            client.ask(&if is_ours { format!("DEHYDRATOR.{line}") } else { line.to_string() });
        }
        catch_up(&primary, &replica);
        assert!(replica.log().matches("CRITICAL").count() > before, "{what}");
    }
}

#[test]
fn the_version_before_this_one_refuses_an_append_only_file_of_this_one() {
    let Some(previous) = previous() else { return };
    for preamble in ["yes", "no"] {
        let options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
        let mut server = Server::start_with_port(&options);
        server.connect().ask("DEHYDRATOR.PUSH k 600000 element id");
        let log = server.restart_in_vain_with(&previous);
        assert!(log.contains("DEHYDRATOR.REQUIRE"), "{log}");
    }
}
