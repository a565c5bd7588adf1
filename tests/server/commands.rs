//! The effects of the commands, through a client library.

use redis::Value;

use harness::{Ask, Server, text, texts, until};

#[test]
fn due_elements_come_earliest_deadline_first_and_ties_in_push_order() {
    let (_server, mut client) = Server::with_client(&[]);
    // With several TTLs, on both sides of a tie.
    for (ttl, id, at) in [(9, "d", 30), (5, "a", 10), (7, "b", 20), (5, "c", 20), (9, "e", 30)] {
        client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element-{id} {id} AT {at}"));
    }
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["a", "b", "c", "d", "e"]));
    client.ask("DEHYDRATOR.PUSH k 5 late f AT 20");
    let order = ["element-a", "element-b", "element-c", "late", "element-d", "element-e"];
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&order));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
}

#[test]
fn nothing_is_early_and_everything_is_delivered() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.PUSH k 150 element id");
    let Value::Int(wait) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
    assert!((1..=150).contains(&wait), "{wait}");
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&[]));
    until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Nil);
}

#[test]
fn ttn_is_exact_when_the_next_element_is_removed() {
    let (_server, mut client) = Server::with_client(&[]);
    let far = 4_102_444_800_000_u64;
    for (id, at) in [("a", far), ("b", far + 5000), ("c", far + 9000)] {
        client.ask(&format!("DEHYDRATOR.PUSH k 1000 element {id} AT {at}"));
    }
    let mut next = |line: &str| {
        let _: Value = client.ask(line);
        let Value::Int(wait) = client.ask("DEHYDRATOR.TTN k") else { panic!("a number") };
        wait as u64
    };
    let first = next("PING");
    let second = next("DEHYDRATOR.PULL k a");
    let third = next("DEHYDRATOR.REM k b");
    assert!((4000..=5000).contains(&(second - first)), "{first}, then {second}");
    assert!((3000..=4000).contains(&(third - second)), "{second}, then {third}");
}

#[test]
fn a_scan_shows_every_permanent_id_once_while_others_come_and_go() {
    let (_server, mut client) = Server::with_client(&[]);
    let stay = 20_000;
    let push = |client: &mut redis::Connection, ids: std::ops::Range<u32>| {
        let mut pipe = redis::pipe();
        for id in ids {
            pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(600_000).arg("e").arg(id);
        }
        pipe.exec(client).expect("pushes");
    };
    push(&mut client, 0..stay);
    let mut seen = vec![0; stay as usize];
    let (mut cursor, mut other, mut calls) = (0_u64, stay, 0);
    loop {
        let mut scan = redis::cmd("DEHYDRATOR.SCAN");
        scan.arg("k").arg(cursor).arg("COUNT").arg(100);
        let (next, ids): (u64, Vec<u32>) = scan.query(&mut client).expect("a cursor and ids");
        assert!(ids.len() < 400, "{} ids at once", ids.len());
        ids.into_iter().filter(|id| *id < stay).for_each(|id| seen[id as usize] += 1);
        cursor = next;
        calls += 1;
        if cursor == 0 {
            break;
        }
        push(&mut client, other..other + 500);
        if calls % 3 == 0 {
            let mut rem = redis::cmd("DEHYDRATOR.REM");
            let ids: Vec<u32> = ((other - 1000).max(stay)..other).collect();
            rem.arg("k").arg(ids).exec(&mut client).expect("a number");
        }
        other += 500;
    }
    assert!(seen.iter().all(|times| *times == 1));
    assert!(calls > 100, "{calls} calls");
}

#[test]
fn touch_moves_a_deadline_and_orders_the_element_after_its_equals() {
    let (_server, mut client) = Server::with_client(&[]);
    for id in ["a", "b", "c"] {
        client.ask(&format!("DEHYDRATOR.PUSH k 600000 {id} {id} AT 50"));
    }
    client.ask("DEHYDRATOR.TOUCH k 5 AT 50 a");
    client.ask("DEHYDRATOR.TOUCH k 5 AT 40 c");
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["c", "b", "a"]));
    client.ask("DEHYDRATOR.TOUCH k 600000 b");
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["c", "a"]));
    let Value::Int(left) = client.ask("DEHYDRATOR.PTTL k b") else { panic!("a number") };
    assert!((590_000..=600_000).contains(&left), "{left}");
}

#[test]
fn touching_several_ids_counts_those_that_meet_the_condition() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.MPUSH k 600000 a a 600000 b b 5 c c AT 50");
    // Any word can be an id: one that looks like a ttl, and one that looks like an option.
    client.ask("DEHYDRATOR.MPUSH k 5 d 7 5 e AT 5 f IDS AT 50");
    let touched =
        |client: &mut _, line: &str| Ask::ask(client, &format!("DEHYDRATOR.TOUCH k {line}"));
    assert_eq!(touched(&mut client, "5 AT 60 IDS 4 a nobody b a"), Value::Int(2));
    assert_eq!(touched(&mut client, "5 AT 55 LT IDS 2 c a"), Value::Int(1));
    assert_eq!(touched(&mut client, "5 GT AT 52 IDS 2 c a"), Value::Int(1));
    assert_eq!(touched(&mut client, "5 AT 40 7"), Value::Int(1));
    assert_eq!(touched(&mut client, "5 AT 30 IDS 2 AT IDS"), Value::Int(2));
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["AT", "IDS", "7", "c", "a", "b"]));
    let before = client.digest("k");
    for line in ["5 IDS 0 a", "5 IDS 3 a b", "5 IDS 1 a b", "ten IDS 1 a", "5 IDS 1 a GT", "a 5"] {
        assert!(
            client.refused(&format!("DEHYDRATOR.TOUCH k {line}")).starts_with("ERR "),
            "{line}"
        );
    }
    assert_eq!(touched(&mut client, "5 IDS 2 x y"), Value::Int(0));
    assert_eq!(client.digest("k"), before);
}

#[test]
fn the_rules_of_push_hold_for_each_element_of_mpush() {
    let (_server, mut client) = Server::with_client(&[]);
    let each = |numbers: &[i64]| Value::Array(numbers.iter().copied().map(Value::Int).collect());
    let all = client.ask("DEHYDRATOR.MPUSH k 1000 a a 1020 b b SLACK 100");
    assert_eq!(all, each(&[1, 1]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k LEASE 600000"), texts(&[]));
    let before = client.digest("k");
    // All or nothing.
    for (id, line) in [("b", "0 new c 0 new b"), ("c", "0 new c 0 new c")] {
        let refused = client.refused(&format!("DEHYDRATOR.MPUSH k {line}"));
        assert_eq!(refused, format!("EXISTS id '{id}' is there already"), "{line}");
    }
    assert_eq!(client.digest("k"), before);
    let line = "DEHYDRATOR.MPUSH k 0 new b 0 c c 0 again c NX AT 50";
    assert_eq!(client.ask(line), each(&[0, 1, 0]));
    // Replacing a leased element ends its lease, and resets its deliveries.
    client.ask("DEHYDRATOR.POLL k LEASE 600000 TOKEN mine");
    let line = "DEHYDRATOR.MPUSH k 7 old c 7 A a 7 C c AT 40 REPLACE";
    assert_eq!(client.ask(line), each(&[1, 1, 1]));
    assert_eq!(client.ask("DEHYDRATOR.SETTLE k mine c"), each(&[0]));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["A", "C"]));
    assert_eq!(client.ask("DEHYDRATOR.PULL k b"), text("b"));
}

#[test]
fn info_is_a_map_in_resp3() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("HELLO 3");
    client.ask("DEHYDRATOR.MPUSH k 0 a 1 0 b 2 600000 c 3");
    let Value::Map(info) = client.ask("DEHYDRATOR.INFO k FULL") else { panic!("a map") };
    let field = |name: &str| &info.iter().find(|(it, _)| *it == text(name)).expect("a field").1;
    assert_eq!((field("length"), field("due")), (&Value::Int(3), &Value::Int(2)));
    let counts = vec![(text("0"), Value::Int(2)), (text("600000"), Value::Int(1))];
    assert_eq!(field("elements-by-ttl"), &Value::Map(counts));
}

#[test]
fn generated_ids_are_unique_and_identify_their_elements() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut ids = std::collections::HashSet::new();
    for number in 0..1000 {
        let Value::BulkString(id) = client.ask(&format!("DEHYDRATOR.GIDPUSH k 60000 {number}"))
        else {
            panic!("an id")
        };
        let id = String::from_utf8(id).expect("hexadecimal digits");
        assert_eq!(id.len(), 32, "{id}");
        assert_eq!(client.ask(&format!("DEHYDRATOR.LOOK k {id}")), text(&number.to_string()));
        ids.insert(id);
    }
    assert_eq!(ids.len(), 1000);
}

#[test]
fn numbers_at_the_limit_of_63_bits_are_accepted() {
    let (_server, mut client) = Server::with_client(&[]);
    let last = i64::MAX;
    client.ask(&format!("DEHYDRATOR.PUSH k {last} never never AT {last}"));
    client.ask("DEHYDRATOR.PUSH k 0 always always AT 0");
    // A hundred million years are valid: only now + ttl counts.
    client.ask("DEHYDRATOR.PUSH k 9223370000000000000 long long");
    assert_eq!(client.ask("DEHYDRATOR.XPOLL k"), texts(&["always"]));
    let before = client.digest("k");
    client.ask("DEBUG RELOAD");
    assert_eq!(client.digest("k"), before);
    assert_eq!(client.ask("DEHYDRATOR.PULL k never"), text("never"));
}

#[test]
fn replies_are_the_same_in_resp3() {
    let (_server, mut client) = Server::with_client(&[]);
    client.ask("HELLO 3");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(client.ask("DEHYDRATOR.LOOK k nobody"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Int(0));
    assert_eq!(client.ask("DEHYDRATOR.POLL k"), texts(&["element"]));
    assert_eq!(client.ask("DEHYDRATOR.TTN k"), Value::Nil);
}

#[test]
fn commands_work_in_transactions_and_scripts() {
    let (_server, mut client) = Server::with_client(&[]);
    let (pushed, polled): (Value, Value) = redis::pipe()
        .atomic()
        .cmd("DEHYDRATOR.PUSH")
        .arg(&["k", "0", "element", "id"])
        .cmd("DEHYDRATOR.POLL")
        .arg("k")
        .query(&mut client)
        .expect("a transaction");
    assert_eq!((pushed, polled), (Value::Okay, texts(&["element"])));
    let script = "redis.call('DEHYDRATOR.PUSH', KEYS[1], 0, 'e', 'i') \
                  return redis.call('DEHYDRATOR.POLL', KEYS[1])";
    let polled: Value =
        redis::cmd("EVAL").arg(script).arg(1).arg("k").query(&mut client).expect("a script");
    assert_eq!(polled, texts(&["e"]));
    assert!(!client.exists("k"));
}
