//! The ids of delivered stream entries.

use redis::Connection;

use harness::{Ask, Server, cmd, until};

/// Returns milliseconds and sequence number of each entry's id, with its element.
fn entries(client: &mut Connection) -> Vec<((u64, u64), String)> {
    let entries: Vec<(String, Vec<String>)> = cmd("XRANGE s - +").query(client).expect("a stream");
    let parsed = entries.into_iter().map(|(id, fields)| {
        let (ms, number) = id.split_once('-').expect("an id");
        ((ms.parse().expect("a number"), number.parse().expect("a number")), fields[3].clone())
    });
    parsed.collect()
}

#[test]
fn no_entry_id_is_earlier_than_its_deadline() {
    const COUNT: u64 = 5000;
    let server = Server::start(&[]);
    let (mut client, mut busy) = (server.connect(), server.connect());
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    let time: Vec<u64> = cmd("TIME").query(&mut client).expect("the time");
    let now = time[0] * 1000 + time[1] / 1000;
    let mut pipe = redis::pipe();
    for number in 0..COUNT {
        let deadline = now + 500 + number / 3;
        let push = pipe.cmd("DEHYDRATOR.PUSH").arg("k").arg(0).arg(deadline).arg(number);
        push.arg("AT").arg(deadline);
    }
    pipe.exec(&mut client).expect("pushes");
    // A busy server reads its clock less often.
    until("all are delivered", || {
        let mut pipe = redis::pipe();
        (0..200).for_each(|_| _ = pipe.cmd("DEHYDRATOR.XPOLL").arg("k").arg("COUNT").arg(50));
        pipe.exec(&mut busy).expect("replies");
        (client.ask("DEHYDRATOR.LEN k") == redis::Value::Int(0)).then_some(())
    });
    let entries = entries(&mut client);
    assert_eq!(entries.len() as u64, COUNT);
    let early = entries
        .iter()
        .filter(|((ms, _), deadline)| *ms < deadline.parse::<u64>().expect("a deadline"));
    assert_eq!(early.count(), 0, "entries are older than their deadlines");
    assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b));
}

#[test]
fn a_stream_whose_last_id_is_in_the_future_accepts_deliveries() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("XADD s 9999999999999-5 id before element before");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    for number in 0..100 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element-{number} {number}", number % 10));
    }
    until("all are delivered", || (client.ask("XLEN s") == redis::Value::Int(101)).then_some(()));
    let entries = entries(&mut client);
    assert!(entries.iter().all(|((ms, _), _)| *ms >= 9_999_999_999_999));
    assert!(entries.is_sorted_by(|(a, _), (b, _)| a < b));
    assert_eq!(server.info("dehydrator", "dehydrator_retries"), 0);
}
