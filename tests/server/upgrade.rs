//! Different versions of the module together: a replica, or a server with an append-only file, understands what it
//! reads, or exits with an explanation. Nothing differs silently.

use redis::Connection;

use crate::replication::{Load, assert_equal, catch_up, replica_of};
use harness::{Ask, Server, cmd, debug_module, release_module, until};

/// Starts a primary with the replication level of a later version.
fn later(options: &[&str]) -> Server {
    let server = Server::start_debug(options);
    server.connect().ask("DEHYDRATOR.DEBUG k LEVEL 2");
    server
}

fn is_told_the_way_out(log: &str, of: &str) {
    let line = log.lines().find(|line| line.contains("silently different"));
    let line = line.unwrap_or_else(|| panic!("it ended without a word: {log}"));
    for part in [of, "replication level", "docs/operations.md"] {
        assert!(line.contains(part), "no '{part}' in {line}");
    }
}

#[test]
fn a_replica_exits_with_an_explanation_if_its_primary_requires_a_higher_level() {
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
        is_told_the_way_out(&log, "level 1");
        assert!(log.contains("the primary"), "after {what}: {log}");
    }
}

#[test]
fn a_replica_that_reconnects_is_checked_again() {
    let primary = later(&["--repl-backlog-size", "100mb"]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.DEBUG k LEVEL 1");
    let mut replica = replica_of(&primary, &[]);
    client.ask("DEHYDRATOR.PUSH k 600000 element first");
    catch_up(&primary, &replica);
    client.ask("DEHYDRATOR.DEBUG k LEVEL 2");
    let before = primary.info("stats", "sync_partial_ok");
    client.ask("CLIENT KILL TYPE replica");
    until("the link was mended", || {
        (primary.info("stats", "sync_partial_ok") > before).then_some(())
    });
    replica.wait_for_link();
    client.ask("DEHYDRATOR.PUSH k 600000 element second");
    is_told_the_way_out(&replica.wait_until_it_gives_up(), "level 1");
}

#[test]
fn a_promoted_replica_checks_its_former_primary() {
    let mut first = Server::start_with_port(&["--save", "3600 1"]);
    let second = Server::start_debug(&[]);
    second.follow(&first);
    Load::new(20).send(&mut first.connect(), 500);
    second.connect().ask("DEHYDRATOR.DEBUG k LEVEL 2");
    first.connect().ask("DEHYDRATOR.PUSH k 600000 element first");
    catch_up(&first, &second);
    first.connect().ask(&format!("FAILOVER TO 127.0.0.1 {}", second.port()));
    first.wait_for_link();
    second.connect().ask("DEHYDRATOR.TOUCH k 700000 first");
    is_told_the_way_out(&first.wait_until_it_gives_up(), "level 1");
    // It has what it had understood. After its upgrade, it is an ordinary replica.
    first.relaunch_with(&debug_module());
    first.connect().ask("DEHYDRATOR.DEBUG k LEVEL 2");
    first.follow(&second);
    assert_equal(&second, &first);
    assert_eq!(first.connect().digest("k"), second.connect().digest("k"));
}

#[test]
fn a_server_exits_with_an_explanation_at_an_append_only_file_of_a_later_version() {
    for preamble in ["yes", "no"] {
        for rewritten in [false, true] {
            let options = ["--appendonly", "yes", "--aof-use-rdb-preamble", preamble];
            let mut server = later(&options);
            let mut client = server.connect();
            client.ask("DEHYDRATOR.PUSH k 600000 element id");
            if rewritten {
                client.rewrite_aof();
                if preamble == "yes" {
                    // The base of the file is an RDB, which has its own version.
                    client.ask("DEHYDRATOR.PUSH k 600000 element other");
                }
            }
            let log = server.restart_in_vain_with(&release_module());
            is_told_the_way_out(&log, "level 1");
            assert!(log.contains("append-only file"), "{log}");
        }
    }
}

#[test]
fn a_command_that_a_replica_cannot_parse_ends_it_with_an_explanation() {
    for unknown in ["DEHYDRATOR.EFFECT k Q SOMEWHERE", "DEHYDRATOR.EFFECT k L5@9@7,key=secret id"] {
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
            is_told_the_way_out(&replica.wait_until_it_gives_up(), unknown);
        }
    }
}

#[test]
fn a_command_in_an_append_only_file_that_cannot_be_parsed_ends_the_server_with_an_explanation() {
    let mut server = Server::start_debug(&["--appendonly", "yes"]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("DEHYDRATOR.DEBUG k SAY DEHYDRATOR.EFFECT k P5@9,with=love element other");
    let log = server.restart_in_vain_with(&release_module());
    is_told_the_way_out(&log, "P5@9,with=love");
}

#[test]
fn commands_of_clients_end_nothing() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = replica_of(&primary, &["--replica-read-only", "no"]);
    for server in [&primary, &replica] {
        let mut client = server.connect();
        assert_eq!(client.ask("DEHYDRATOR.EFFECT k N1 0.1.0"), redis::Value::Int(1));
        let refused = client.refused("DEHYDRATOR.EFFECT k N2 9.9.9");
        assert!(refused.contains("it needs level 2, of version 9.9.9, and this is 1"), "{refused}");
        client.refused("DEHYDRATOR.EFFECT k N");
        client.refused("DEHYDRATOR.ONDUE k SOMEWHERE");
        client.refused("DEHYDRATOR.EFFECT k L5@9@7,key=secret id");
        client.ask("MULTI");
        client.ask("DEHYDRATOR.EFFECT k N1");
        client.ask("DEHYDRATOR.ONDUE k SOMEWHERE");
        let _: redis::RedisResult<redis::Value> = cmd("EXEC").query(&mut client);
        let script = "return redis.pcall('DEHYDRATOR.ONDUE', KEYS[1], 'SOMEWHERE')";
        let _: redis::RedisResult<redis::Value> =
            cmd("EVAL").arg(script).arg(1).arg("k").query(&mut client);
    }
    // Users' commands end nothing, whoever sends them, and effects can fail for other reasons than that they are not known.
    replica.connect().ask("SET wrong type");
    primary.connect().ask("DEHYDRATOR.PUSH wrong 600000 element id");
    primary.connect().ask("DEHYDRATOR.PUSH k 600000 element id");
    catch_up(&primary, &replica);
}

#[test]
fn a_new_replica_is_checked_once() {
    let server = Server::start_with_port(&["--appendonly", "yes"]);
    let mut client = server.connect();
    let said = || {
        let folder = server.file("appendonlydir");
        let files = std::fs::read_dir(folder).expect("a folder").flatten();
        let files = files.map(|file| std::fs::read(file.path()).expect("a file"));
        let text = files.map(|file| String::from_utf8_lossy(&file).into_owned());
        text.map(|text| text.matches("\r\nN1\r\n").count()).sum::<usize>()
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
    // The new replica is an event of its own, and so are the start and the end of the child that saves for it.
    assert!((2..=5).contains(&said()), "{}", said());
}

#[test]
fn a_dump_of_a_later_version_is_refused_with_the_way_out() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PAUSE k");
    let mut dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a dump");
    client.ask("DEBUG SET-SKIP-CHECKSUM-VALIDATION 1");
    // After the kind and the module's name: a number with the feature bits.
    const FEATURES: usize = 11;
    assert_eq!(dump[FEATURES], 4);
    // 8192, as the server encodes numbers from 64 on.
    dump.splice(FEATURES..=FEATURES, [0x60, 0]);
    let mut restore = redis::cmd("RESTORE");
    let refused = harness::refusal(restore.arg("key").arg(0).arg(dump), &mut client);
    assert!(refused.is_ok_and(|refused| refused.contains("Bad data format")));
    let log = server.log();
    for part in ["'key' was written by a later version of the module", "docs/operations.md"] {
        assert!(log.contains(part), "no {part} in {log}");
    }
}
