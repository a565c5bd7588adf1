//! A policy from RESTORE, with which a user could write to destinations without permission: it delivers nothing until
//! an ONDUE confirms it.

use redis::{Connection, Value};

use super::{arrived, field, policy};
use crate::cluster;
use crate::migration;
use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, until};

/// Returns the payload of a dehydrator, with this policy and a due element.
fn dump(client: &mut Connection, key: &str, policy: &str) -> Vec<u8> {
    let lines = [
        format!("DEHYDRATOR.EFFECT {key} P0@1,delivered=1 element id"),
        format!("DEHYDRATOR.ONDUE {key} {policy}"),
        format!("DUMP {key}"),
        format!("DEL {key}"),
    ];
    // In one transaction, or it would be delivered.
    let mut pipe = redis::pipe();
    pipe.atomic();
    for line in &lines {
        pipe.add_command(cmd(line));
    }
    let (_, _, dump, _): (Value, Value, Vec<u8>, Value) = pipe.query(client).expect("a dump");
    dump
}

fn restore(client: &mut Connection, key: &str, dump: &[u8]) {
    redis::cmd("RESTORE").arg(key).arg(0).arg(dump).exec(client).expect("OK");
}

/// Waits long enough for a delivery, and asserts that there is none.
fn stays(client: &mut Connection, key: &str) {
    until("it is tried, and stays", || {
        let info: Vec<Value> = cmd(&format!("DEHYDRATOR.INFO {key}")).query(client).expect("a map");
        let is_told = format!("{info:?}").contains("came by RESTORE");
        (is_told && policy(client, key).ends_with("UNCONFIRMED")).then_some(())
    });
    assert_eq!(client.ask(&format!("DEHYDRATOR.LEN {key}")), Value::Int(1));
}

#[test]
fn a_user_without_permission_for_a_destination_gains_none_by_restore() {
    for policy in ["STREAM s", "PUBLISH c", "HOLD DELIVERIES 1 STREAM s"] {
        let server = Server::start_with_port(&[]);
        let mut client = server.connect();
        let dump = dump(&mut client, "own", policy);
        client.ask("ACL SETUSER eve on >pw resetkeys ~own* resetchannels +@all");
        let mut eve = server.connect();
        eve.ask("AUTH eve pw");
        for line in ["own s", "own c"] {
            let [own, other] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("two") };
            let kind = if other == "s" { "STREAM" } else { "PUBLISH" };
            let refused = eve.refused(&format!("DEHYDRATOR.ONDUE {own} {kind} {other}"));
            assert!(refused.contains("NOPERM"), "{refused}");
        }
        restore(&mut eve, "own", &dump);
        stays(&mut client, "own");
        assert_eq!(field(&server, "failing"), 1, "{policy}");
        assert_eq!(field(&server, "deliveries") + field(&server, "dead_letters"), 0, "{policy}");
        assert!(!client.exists("s"), "{policy}");
        assert_eq!(server.log().matches("came by RESTORE").count(), 1, "{}", server.log());
        // Setting the policy needs the permission.
        let refused = eve.refused(&format!("DEHYDRATOR.ONDUE own {policy}"));
        assert!(refused.contains("NOPERM"), "{refused}");
        // The user may not send the replication commands either.
        let refused = client.refused(&format!("DEHYDRATOR.ONDUE own {policy} UNCONFIRMED"));
        assert_eq!(refused, "ERR syntax error, unexpected 'UNCONFIRMED'");
        client.ask(&format!("DEHYDRATOR.ONDUE own {policy}"));
        assert_eq!(super::policy(&mut client, "own"), policy);
        if policy == "HOLD DELIVERIES 1 STREAM s" {
            // A stuck dead letter is postponed.
            until("it is there", || client.exists("s").then_some(()));
        } else {
            until("it is delivered", || (field(&server, "deliveries") == 1).then_some(()));
            assert_eq!(client.exists("s"), policy == "STREAM s");
        }
    }
}

#[test]
fn policies_without_a_destination_need_no_confirmation() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let payload = dump(&mut client, "k", "DROP");
    restore(&mut client, "k", &payload);
    until("it is gone", || (client.ask("DEHYDRATOR.LEN k") == Value::Int(0)).then_some(()));
    assert_eq!(policy(&mut client, "k"), "DROP");
}

#[test]
fn the_policy_stays_unconfirmed_wherever_its_key_goes() {
    let ways: [(&str, &[&str]); 10] = [
        ("RENAME", &["RENAME k there"]),
        ("RENAME in the same pass", &[]),
        ("MOVE", &["MOVE k 3", "SELECT 3", "RENAME k there"]),
        ("COPY", &["COPY k there"]),
        ("COPY of a copy", &["COPY k a", "COPY a there"]),
        ("SWAPDB", &["RENAME k there", "SWAPDB 0 5", "SELECT 5"]),
        ("DEBUG RELOAD", &["RENAME k there", "DEBUG RELOAD"]),
        ("a pause", &["RENAME k there", "DEHYDRATOR.PAUSE there", "DEHYDRATOR.RESUME there"]),
        ("DEBUG LOADAOF", &["RENAME k there", "DEBUG LOADAOF"]),
        ("rewriting the AOF", &["RENAME k there", "BGREWRITEAOF"]),
    ];
    let server = Server::start_with_port(&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"]);
    let mut client = server.connect();
    let payload = dump(&mut client, "k", "STREAM s MAXLEN ~ 1000");
    for (way, lines) in ways {
        client.ask("SELECT 0");
        client.ask("FLUSHALL");
        if way == "RENAME in the same pass" {
            let mut pipe = redis::pipe();
            pipe.cmd("RESTORE").arg("k").arg(0).arg(&payload).ignore();
            pipe.cmd("RENAME").arg("k").arg("there").ignore();
            pipe.exec(&mut client).expect("OK");
        } else {
            restore(&mut client, "k", &payload);
        }
        for line in lines {
            client.ask(line);
        }
        client.wait_for_rewrite();
        stays(&mut client, "there");
        client.ask("DEBUG LOADAOF");
        stays(&mut client, "there");
        assert_eq!(policy(&mut client, "there"), "STREAM s MAXLEN ~ 1000 UNCONFIRMED", "{way}");
        // Through another dump.
        let again: Vec<u8> = cmd("DUMP there").query(&mut client).expect("a dump");
        restore(&mut client, "again", &again);
        stays(&mut client, "again");
        assert!(!client.exists("s"), "after {way}");
        client.ask("DEHYDRATOR.ONDUE there STREAM s MAXLEN ~ 1000");
        arrived(&mut client, "s", 1);
    }
}

#[test]
fn the_policy_stays_unconfirmed_across_restarts() {
    for (options, crash) in [
        (&["--save", "3600 1"][..], false),
        (&["--appendonly", "yes", "--appendfsync", "always"], true),
        (&["--appendonly", "yes", "--aof-use-rdb-preamble", "no"], false),
    ] {
        let mut server = Server::start_with_port(options);
        let mut client = server.connect();
        let payload = dump(&mut client, "k", "STREAM s");
        restore(&mut client, "k", &payload);
        // The append-only file has it by the time the client has its reply.
        if crash {
            server.crash_and_restart();
        } else {
            server.restart();
        }
        let mut client = server.connect();
        stays(&mut client, "k");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        server.restart();
        let mut client = server.connect();
        arrived(&mut client, "s", 1);
        assert_eq!(policy(&mut client, "k"), "STREAM s");
    }
}

#[test]
fn the_policy_stays_unconfirmed_on_a_promoted_replica() {
    let primary = Server::start_with_port(&[]);
    let mut client = primary.connect();
    let payload = dump(&mut client, "k", "STREAM s");
    restore(&mut client, "before", &payload);
    let replica = replica_of(&primary, &["--appendonly", "yes"]);
    restore(&mut client, "after", &payload);
    restore(&mut client, "confirmed", &payload);
    client.ask("DEHYDRATOR.ONDUE confirmed STREAM s");
    arrived(&mut client, "s", 1);
    catch_up(&primary, &replica);
    let mut other = replica.connect();
    for key in ["before", "after", "confirmed", "s"] {
        assert_eq!(client.digest(key), other.digest(key), "{key}");
    }
    other.ask("REPLICAOF NO ONE");
    other.wait_for_rewrite();
    for _ in 0..2 {
        for key in ["before", "after"] {
            stays(&mut other, key);
        }
        assert_eq!(policy(&mut other, "confirmed"), "STREAM s");
        other.ask("DEBUG LOADAOF");
    }
    assert_eq!(arrived(&mut other, "s", 1), ["id"]);
    other.ask("DEHYDRATOR.ONDUE before STREAM s");
    arrived(&mut other, "s", 2);
}

#[test]
fn in_a_cluster_it_is_the_same_except_for_keys_that_move_with_their_slot() {
    let cluster = cluster::start();
    let [mut here, mut there] = [0, 1].map(|node| cluster.nodes[node].connect());
    let payload = dump(&mut here, "{fHh}:k", "STREAM {fHh}:s");
    restore(&mut here, "{fHh}:k", &payload);
    stays(&mut here, "{fHh}:k");
    here.ask("DEHYDRATOR.ONDUE {fHh}:bound STREAM {fHh}:s");
    here.ask("DEHYDRATOR.PUSH {fHh}:bound 2000 element moved");
    let replicas = cluster.nodes.iter().filter(|node| {
        let role = format!("{:?}", node.connect().ask("ROLE"));
        role.contains("slave") && role.contains(&format!("Int({})", cluster.nodes[0].port()))
    });
    for replica in replicas {
        let mut other = replica.connect();
        until("the replica has been told", || {
            let [ours, theirs] = [&mut here, &mut other].map(|it| it.digest("{fHh}:k"));
            (ours == theirs).then_some(())
        });
    }

    let (from, to) = (cluster.id_of(0), cluster.id_of(1));
    there.ask(&format!("CLUSTER SETSLOT 0 IMPORTING {from}"));
    here.ask(&format!("CLUSTER SETSLOT 0 MIGRATING {to}"));
    let keys = "{fHh}:k {fHh}:bound";
    let port = cluster.nodes[1].port();
    cmd("MIGRATE 127.0.0.1")
        .arg(port)
        .arg("")
        .arg(0)
        .arg(5000)
        .arg("KEYS")
        .arg(keys.split(' ').collect::<Vec<_>>())
        .exec(&mut here)
        .expect("OK");
    for node in [&mut there, &mut here] {
        node.ask(&format!("CLUSTER SETSLOT 0 NODE {to}"));
    }
    assert_eq!(arrived(&mut there, "{fHh}:s", 1), ["moved"]);
    assert_eq!(policy(&mut there, "{fHh}:bound"), "STREAM {fHh}:s");
    stays(&mut there, "{fHh}:k");
}

#[test]
fn an_atomic_slot_migration_keeps_confirmed_and_unconfirmed_policies() {
    let Some(cluster) = migration::start(0) else { return };
    let [mut here, mut there] = [0, 1].map(|node| cluster.nodes[node].connect());
    let payload = dump(&mut here, "{fHh}:k", "STREAM {fHh}:s");
    restore(&mut here, "{fHh}:k", &payload);
    stays(&mut here, "{fHh}:k");
    here.ask("DEHYDRATOR.ONDUE {fHh}:bound STREAM {fHh}:s");
    here.ask("DEHYDRATOR.PUSH {fHh}:bound 3000 element moved");
    cluster.move_at_once(0, 1, migration::SLOTS);
    assert_eq!(arrived(&mut there, "{fHh}:s", 1), ["moved"]);
    assert_eq!(policy(&mut there, "{fHh}:bound"), "STREAM {fHh}:s");
    stays(&mut there, "{fHh}:k");
}
