//! Elements with individual deadlines, which are in no queue, together with elements in queues.

use std::collections::BTreeMap;

use redis::{Connection, Value};

use crate::replication::assert_equal;
use harness::{Ask, Server, cmd, text};

const COUNT: u64 = 5000;
/// The year 2100: nothing comes due by itself.
const FAR: u64 = 4_102_444_800_000;

/// Returns a number below `span` for each element, in no order.
fn spread(number: u64, span: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % span
}

/// Returns ids in the order of delivery, as RANGE pages through them.
fn order(client: &mut Connection) -> Vec<(u64, String)> {
    let mut rows = Vec::new();
    let mut cursor = "-".to_owned();
    loop {
        let page = format!("DEHYDRATOR.RANGE k {cursor} + COUNT 37");
        type Row = (String, u64, u64, u64, u64);
        let (next, page): (Option<String>, Vec<Row>) = cmd(&page).query(client).expect("a page");
        rows.extend(page.into_iter().map(|(id, deadline, ..)| (deadline, id)));
        match next {
            Some(next) => cursor = next,
            None => return rows,
        }
    }
}

#[test]
fn elements_with_individual_deadlines_are_delivered_in_order_in_every_way() {
    let primary = Server::start_with_port(&["--appendonly", "yes"]);
    let replica = Server::start_with_port(&[]);
    let mut client = primary.connect();
    replica.follow(&primary);
    let mut model = BTreeMap::new();
    let mut pipe = redis::pipe();
    for number in 0..COUNT {
        // Ties of more than a block, and ranges of more than 32 bits of milliseconds.
        let span = [3, 60_000, 1 << 40][number as usize % 3];
        let (id, deadline) = (format!("{number:05}"), FAR + spread(number, span));
        let ttl = if number % 2 == 0 { 0 } else { 1 + spread(number, 1 << 34) };
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(ttl).arg("element").arg(&id);
        push.arg("AT").arg(deadline).ignore();
        model.insert((deadline, number), id);
    }
    let () = pipe.query(&mut client).expect("OK");
    let expected = |model: &BTreeMap<(u64, u64), String>| -> Vec<_> {
        model.iter().map(|((deadline, _), id)| (*deadline, id.clone())).collect()
    };
    assert_eq!(order(&mut client), expected(&model));
    assert_equal(&primary, &replica);

    // Touch some, into one queue, to individual deadlines and back; lease some, and give them back; remove some.
    let mut pipe = redis::pipe();
    for (step, key) in model.keys().copied().collect::<Vec<_>>().into_iter().enumerate() {
        let id = model[&key].clone();
        let turn = COUNT + step as u64;
        match step % 5 {
            0 => {
                pipe.cmd("DEHYDRATOR.REM").arg("k").arg(&id).ignore();
                model.remove(&key);
            }
            1 | 2 => {
                let (ttl, at) = if step % 5 == 1 {
                    (30_000, FAR + step as u64)
                } else {
                    (1 + spread(turn, 99_999), FAR + spread(turn, 100_000))
                };
                let touch = pipe.cmd("DEHYDRATOR.TOUCH").arg("k").arg(ttl);
                touch.arg("AT").arg(at).arg(&id).ignore();
                model.remove(&key);
                model.insert((at, turn), id);
            }
            _ => {}
        }
    }
    let () = pipe.query(&mut client).expect("numbers");
    assert_eq!(order(&mut client), expected(&model));
    assert_equal(&primary, &replica);

    client.ask("DEBUG RELOAD");
    assert_eq!(order(&mut client), expected(&model), "from an RDB");
    client.ask("COPY k copy");
    assert_eq!(client.ask("DEHYDRATOR.RANGE copy - +"), client.ask("DEHYDRATOR.RANGE k - +"));
    client.rewrite_aof();
    client.ask("DEBUG LOADAOF");
    assert_eq!(order(&mut client), expected(&model), "from an append-only file");
    assert_equal(&primary, &replica);

    // Take due elements, in calls of any length, half of them with leases.
    let now = FAR - 1;
    let soon: Vec<_> = model.keys().take(600).copied().collect();
    let mut pipe = redis::pipe();
    let mut due = Vec::new();
    for (number, key) in soon.into_iter().enumerate() {
        let id = model.remove(&key).expect("it is there");
        let past = 1000 + spread(number as u64, 50);
        let touch = pipe.cmd("DEHYDRATOR.TOUCH").arg("k").arg(number);
        touch.arg("AT").arg(past).arg(&id).ignore();
        due.push((past, number, id));
    }
    let () = pipe.query(&mut client).expect("numbers");
    due.sort();
    assert!(due.iter().all(|(deadline, ..)| *deadline < now));
    let mut taken = Vec::new();
    while taken.len() < due.len() {
        let how = if taken.len() % 2 == 0 { "LEASE 100000000" } else { "WITHIDS" };
        let poll = format!("DEHYDRATOR.POLL k COUNT {} {how}", 1 + taken.len() % 70);
        let Value::Array(elements) = client.ask(&poll) else { panic!("an array") };
        assert!(!elements.is_empty());
        for element in elements {
            let Value::Array(parts) = element else { panic!("an id and an element") };
            taken.push(parts[0].clone());
        }
    }
    assert_eq!(taken, due.iter().map(|(.., id)| text(id)).collect::<Vec<_>>());
    assert_equal(&primary, &replica);
}
