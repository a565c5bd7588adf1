//! What holds while a change of limits for each group is on its way to very many groups.

use redis::Connection;

use crate::replication::{catch_up, replica_of};
use harness::{Ask, Server, cmd, field_of, until};

/// Groups, more than a change reaches at once.
const GROUPS: usize = 4000;

/// Pushes an element into each group, which are named after their numbers, and the elements after group and `name`.
fn push_to_each(client: &mut Connection, name: &str, options: &str) {
    let mut pipe = redis::pipe();
    for group in 0..GROUPS {
        let line =
            format!("DEHYDRATOR.PUSH k 0 of-{name}-{group} {name}-{group} GROUP {group}{options}");
        pipe.add_command(cmd(&line)).ignore();
    }
    pipe.exec(client).expect("they are pushed");
}

/// Dead letters and expired elements are given to nobody, whatever limits their groups have by then, and each element comes
/// as it was pushed.
#[test]
fn what_is_dead_is_not_given_out_while_a_limit_of_each_group_changes() {
    let primary = Server::start_with_port(&[]);
    let replica = replica_of(&primary, &[]);
    let mut client = primary.connect();
    client.ask("DEHYDRATOR.ONDUE k HOLD DELIVERIES 1 STREAM dead");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 1");
    push_to_each(&mut client, "exhausted", "");
    let lease = cmd(&format!("DEHYDRATOR.POLL k COUNT {GROUPS} LEASE 600000 TOKEN t"));
    let leased: Vec<Vec<redis::Value>> = lease.query(&mut client).expect("rows");
    assert_eq!(leased.len(), GROUPS);
    push_to_each(&mut client, "late", " WITHIN 1");
    push_to_each(&mut client, "living", " DELIVERIES 9");
    // Each group is full. Half of the leases end by themselves.
    let mut renew = cmd("DEHYDRATOR.RENEW k 1");
    (0..GROUPS / 2).for_each(|group| _ = renew.arg("t").arg(format!("exhausted-{group}")));
    renew.exec(&mut client).expect("they are renewed");
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 2");
    let mut given = Vec::new();
    until("all that may be given out is", || {
        let polled: Vec<(String, String, i64, String)> =
            cmd("DEHYDRATOR.POLL k COUNT 1 LEASE 600000").query(&mut client).expect("rows");
        for (id, element, ..) in polled {
            assert!(id.starts_with("living-"), "{id}");
            assert_eq!(element, format!("of-{id}"));
            given.push(id);
        }
        (given.len() == GROUPS).then_some(())
    });
    given.sort();
    given.dedup();
    assert_eq!(given.len(), GROUPS, "each once");
    // What is dead still leaves by itself.
    until("primary and replica are equal", || {
        catch_up(&primary, &replica);
        (replica.connect().digest("k") == client.digest("k")).then_some(())
    });
}

/// The oldest of all that may be given out, whatever group is next, however many groups are held back.
#[test]
fn the_oldest_due_is_that_of_all_groups_that_may_give() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.LIMIT k EACH HELD 5");
    client.ask("DEHYDRATOR.MPUSH k 0 e a1 0 e a2 GROUP a");
    // The turn is group b's now, whose element came later.
    client.ask("DEHYDRATOR.POLL k COUNT 1");
    until("it is late", || (oldest_due(&mut client) >= 1100).then_some(()));
    client.ask("DEHYDRATOR.PUSH k 0 e b1 GROUP b");
    assert!(oldest_due(&mut client) >= 1100);
    until("LATE lists it", || {
        let late: Vec<Vec<redis::Value>> = cmd("DEHYDRATOR.LATE").query(&mut client).expect("rows");
        matches!(late.first()?[2], redis::Value::Int(ms) if ms >= 1100).then_some(())
    });
    client.ask("DEHYDRATOR.PULL k a2");
    assert!(oldest_due(&mut client) < 1100);
}

fn oldest_due(client: &mut Connection) -> i64 {
    let values: Vec<redis::Value> = cmd("DEHYDRATOR.INFO k").query(client).expect("a map");
    let mut pairs = values.chunks(2);
    let value =
        pairs.find(|pair| pair[0] == harness::text("oldest-due-ms")).expect("a field")[1].clone();
    redis::from_redis_value(value).expect("a number")
}

/// A group that was touched or purged in several calls needs the rights in each of them, and nothing is left of a client that
/// goes in between.
#[test]
fn rights_are_asked_at_each_call_and_nothing_outlives_one() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("ACL SETUSER eve on nopass ~k +@all");
    push_to_each(&mut client, "a", " AT 99999999999999");
    let mut more = redis::pipe();
    for number in 0..3000 {
        more.add_command(cmd(&format!("DEHYDRATOR.PUSH k 600000 e m{number} GROUP g"))).ignore();
    }
    more.exec(&mut client).expect("they are pushed");
    let mut eve = server.connect();
    eve.ask("AUTH eve any");
    for line in ["TOUCH k 700000 GROUP g", "PURGE k GROUP g"] {
        client.ask("ACL SETUSER eve resetkeys ~k");
        assert_eq!(eve.ask(&format!("DEHYDRATOR.{line} COUNT 100")), redis::Value::Int(100));
        client.ask("ACL SETUSER eve resetkeys ~other");
        let refused = eve.refused(&format!("DEHYDRATOR.{line} COUNT 100"));
        assert!(refused.starts_with("NOPERM"), "{refused}");
    }
    // Clients that go as soon as they have sent it.
    let memory = |client: &mut Connection| {
        let info: String = cmd("INFO memory").query(client).expect("text");
        field_of(&info, "used_memory")
    };
    let clients = || server.info("clients", "connected_clients");
    let (before, connected) = (memory(&mut client), clients());
    for _ in 0..50 {
        let mut gone = server.connect();
        let mut touch = cmd("DEHYDRATOR.TOUCH k 800000 GROUP");
        touch.arg("x".repeat(1000)).arg("COUNT").arg(1);
        gone.send_packed_command(&touch.get_packed_command()).expect("it is sent");
    }
    until("all have gone", || (clients() == connected).then_some(()));
    assert_eq!(server.info("clients", "blocked_clients"), 0);
    until("memory is as before", || (memory(&mut client) < before + 100_000).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k GROUP g"), redis::Value::Int(2900));
}
