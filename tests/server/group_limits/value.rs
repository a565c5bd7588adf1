//! Limits and pauses of groups are part of the value.

use std::time::Duration;

use redis::{Connection, Value};

use super::{AOF, ids, leased_at_once, map, push, settle};
use crate::expired::copies_are_equal;
use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, let_pass, texts, until};

#[test]
fn limits_and_pauses_of_groups_are_part_of_the_value_wherever_it_goes() {
    let mut primary = Server::start_with_port(&AOF);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.LIMIT k EACH LENGTH 50 HELD 2 RATE 3 PER 86400000");
    client.ask("DEHYDRATOR.LIMIT k GROUP b SHARE 7 LENGTH 60 HELD 1");
    client.ask("DEHYDRATOR.LIMIT k GROUP nobody HELD 9 RATE 5 PER 1000");
    client.ask("DEHYDRATOR.LIMIT k GROUP  SHARE 2");
    client.ask("DEHYDRATOR.PAUSE k GROUP p");
    client.ask("DEHYDRATOR.PAUSE k AT 4102444799999 GROUP q");
    client.ask("DEHYDRATOR.PAUSE k FOR 500000 GROUP r");
    client.ask("DEHYDRATOR.LIMIT each EACH HELD 1");
    client.ask("DEHYDRATOR.PAUSE paused GROUP p");
    for number in 0..9 {
        push(&mut client, &format!("a{number} b{number} p{number} -{number}"));
    }
    assert_eq!(leased_at_once(&mut client, 5, 600_000), "a0 b0 -0 -1 a1");
    catch_up(&primary, &replica);
    let keys = ["k", "each", "paused"];
    let digests = keys.map(|key| client.digest(key));
    let shown = |client: &mut Connection| {
        ["a", "b", "nobody", "p", "q", "r", ""]
            .map(|group| map(client, &format!("INFO k GROUP {group}")))
    };
    let before = shown(&mut client);
    assert_eq!((before[0]["held-limit"], before[0]["length-limit"]), (Some(2), Some(50)));
    assert_eq!((before[1]["held-limit"], before[1]["length-limit"]), (Some(1), Some(60)));
    assert_eq!(before[4]["paused-until"], Some(4_102_444_799_999));
    assert_eq!((before[6]["held-limit"], before[6]["share"]), (Some(0), Some(2)));
    assert_eq!(keys.map(|key| replica.connect().digest(key)), digests);
    assert_eq!(shown(&mut replica.connect()), before);
    for way in ["AOF", "rewritten AOF", "RDB"] {
        match way {
            "rewritten AOF" => client.rewrite_aof(),
            "RDB" => _ = client.ask("DEBUG RELOAD"),
            _ => {}
        }
        if way != "RDB" {
            primary.restart();
            client = primary.connect();
        }
        assert_eq!(keys.map(|key| client.digest(key)), digests, "{way}");
        assert_eq!(shown(&mut client), before, "{way}");
    }
    keys.iter().for_each(|key| copies_are_equal(&mut client, key));
}

/// Loads the data from a file, or makes the replica the primary. Returns a client of the server that has the data then.
fn moved(way: &str, server: &mut Server, replica: &Server, mut client: Connection) -> Connection {
    match way {
        "rewritten AOF" => client.rewrite_aof(),
        "RDB" => _ = client.ask("DEBUG RELOAD"),
        "failover" => {
            catch_up(server, replica);
            server.kill();
            client = replica.connect();
            client.ask("REPLICAOF NO ONE");
        }
        _ => {}
    }
    if way.ends_with("AOF") {
        server.restart();
        client = server.connect();
    }
    client
}

#[test]
fn what_is_held_counts_after_a_restart_and_a_failover() {
    for way in ["AOF", "rewritten AOF", "RDB", "failover"] {
        let mut server = Server::start_with_port(&AOF);
        let replica = replica_of(&server, &[]);
        let mut client = server.connect();
        client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
        client.ask("DEHYDRATOR.LIMIT k GROUP b HELD 2 LENGTH 4");
        push(&mut client, "a1 a2 b1 b2 b3");
        // Pushed before the limit, so that they are more than it allows.
        client.ask("DEHYDRATOR.LIMIT k GROUP b LENGTH 2");
        assert_eq!(leased_at_once(&mut client, 9, 600_000), "a1 b1 b2");
        let mut client = moved(way, &mut server, &replica, client);
        let poll = "DEHYDRATOR.POLL k COUNT 9 LEASE 600000 TOKEN u";
        assert_eq!(client.ask(poll), texts(&[]), "{way}");
        settle(&mut client, "b1");
        assert_eq!(ids(&client.ask(poll)), ["b3"], "{way}");
        assert!(client.refused("DEHYDRATOR.PUSH k 0 x b4 GROUP b").starts_with("FULL"), "{way}");
        settle(&mut client, "a1");
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN v")), ["a2"], "{way}");
    }
}

#[test]
fn what_was_given_out_counts_after_a_restart_a_failover_and_in_a_copy() {
    for way in ["AOF", "rewritten AOF", "RDB", "failover", "COPY", "DUMP"] {
        let mut server = Server::start_with_port(&AOF);
        let replica = replica_of(&server, &[]);
        let mut client = server.connect();
        client.ask("DEHYDRATOR.LIMIT k EACH RATE 3 PER 86400000");
        client.ask("DEHYDRATOR.LIMIT k GROUP b RATE 4 PER 86400000");
        push(&mut client, "a1 b1 b2 c1");
        // Two of them go with the last element of their group.
        assert_eq!(ids(&client.ask("DEHYDRATOR.POLL k COUNT 9 WITHIDS")), ["a1", "b1", "c1", "b2"]);
        match way {
            "COPY" => {
                client.ask("COPY k copy");
                client.ask("RENAME copy k");
            }
            "DUMP" => {
                let dump: Vec<u8> = cmd("DUMP k").query(&mut client).expect("a payload");
                client.ask("DEL k");
                let mut restore = redis::cmd("RESTORE");
                restore.arg("k").arg(0).arg(dump).exec(&mut client).expect("OK");
            }
            _ => {}
        }
        let mut client = moved(way, &mut server, &replica, client);
        push(&mut client, "a2 a3 a4 b3 b4 b5 c2 c3 c4");
        let given = ids(&client.ask("DEHYDRATOR.POLL k COUNT 9 WITHIDS"));
        assert_eq!(given, ["a2", "b3", "c2", "a3", "b4", "c3"], "{way}");
    }
}

#[test]
fn a_replica_and_the_append_only_file_agree_on_whatever_is_limited_and_paused() {
    let mut primary = Server::start_with_port(&AOF);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    let mut random = 7_u64;
    let mut below = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % most
    };
    let (mut refused, mut pipe) = (0, redis::pipe());
    pipe.ignore_errors();
    for number in 0..6000 {
        let (id, limit) = (below(200), below(4));
        let group = ["a", "b", "c", "d", "e"][below(5) as usize];
        let line = match below(40) {
            0 => format!("LIMIT k EACH HELD {limit} LENGTH {}", 10 * limit),
            1 => format!("LIMIT k GROUP {group} HELD {limit} SHARE {}", 1 + limit),
            2 => format!("LIMIT k GROUP {group} LENGTH {}", 15 * limit),
            3 => format!("PAUSE k FOR {} GROUP {group}", 1 + below(400)),
            4 => format!("PAUSE k GROUP {group}"),
            38 if limit > 0 => {
                let per = [1, 40, 86_400_000][below(3) as usize];
                let whose = if below(2) > 0 { "EACH".into() } else { format!("GROUP {group}") };
                format!("LIMIT k {whose} RATE {} PER {per}", 300 * limit)
            }
            5 | 6 => format!("RESUME k GROUP {group}"),
            7..18 => format!("PUSH k {} x {id} GROUP {group} REPLACE", below(50)),
            18..24 => format!("MPUSH k 0 x {id} 0 x {} NX GROUP {group}", id + 1),
            24..32 => format!("POLL k COUNT 3 LEASE {} TOKEN t{number}", 1 + below(300)),
            32 => "POLL k COUNT 2".into(),
            33..38 => format!("SETTLE k t{} {id} t{} {}", number - 2, number - 1, id + 1),
            _ => format!("TOUCH k 0 {id}"),
        };
        pipe.add_command(cmd(&format!("DEHYDRATOR.{line}")));
        if number % 50 == 49 {
            let replies: Vec<Value> = pipe.query(&mut client).expect("replies");
            let is_full = |it: &&Value| matches!(it, Value::ServerError(_));
            refused += replies.iter().filter(is_full).count();
            pipe.clear();
            // Elements come due, and leases and pauses end.
            let_pass(Duration::from_millis(2));
        }
    }
    assert!(refused > 50, "LENGTH refused {refused}");
    // So that no pause ends between two looks.
    for group in ["a", "b", "c", "d", "e"] {
        client.ask(&format!("DEHYDRATOR.RESUME k GROUP {group}"));
        client.ask(&format!("DEHYDRATOR.LIMIT k GROUP {group} RATE 0"));
    }
    client.ask("DEHYDRATOR.PAUSE k GROUP e");
    client.ask("DEHYDRATOR.LIMIT k EACH RATE 5000 PER 86400000");
    client.ask("DEHYDRATOR.POLL k COUNT 5");
    let mut there = replica.connect();
    until("they are equal", || (there.digest("k") == client.digest("k")).then_some(()));
    let digest = client.digest("k");
    for rewrites in [false, true] {
        if rewrites {
            client.rewrite_aof();
        }
        primary.restart();
        client = primary.connect();
        assert_eq!(client.digest("k"), digest, "{rewrites}");
    }
}
