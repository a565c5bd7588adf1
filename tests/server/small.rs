//! Small dehydrators: their cost, when they take the full form, and that only INFO shows the form.

use std::collections::BTreeSet;

use redis::{Connection, Value};

use harness::{Ask, Server, cmd, text, texts, until};

/// Returns the form of a key from INFO.
fn encoding(client: &mut Connection, key: &str) -> String {
    let Value::Array(info) = client.ask(&format!("DEHYDRATOR.INFO {key}")) else { panic!("a map") };
    let at = info.iter().position(|it| *it == text("encoding")).expect("the field");
    redis::from_redis_value(info[at + 1].clone()).expect("a word")
}

fn push(client: &mut Connection, key: &str, ids: std::ops::Range<u32>, length: usize) {
    let mut pipe = redis::pipe();
    for id in ids {
        let element = vec![b'x'; length];
        pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(600_000 + id % 3).arg(element).arg(id);
    }
    pipe.exec(client).expect("pushes");
}

#[test]
fn a_dehydrator_becomes_large_at_either_limit_and_stays_so() {
    let (_server, mut client) = Server::with_client(&[]);
    assert_eq!(encoding(&mut client, "nowhere"), "small");
    push(&mut client, "k", 0..32, 1);
    assert_eq!(encoding(&mut client, "k"), "small");
    client.ask("DEHYDRATOR.PUSH k 5000 element 7 REPLACE");
    assert_eq!(encoding(&mut client, "k"), "small");
    push(&mut client, "k", 32..33, 1);
    assert_eq!(encoding(&mut client, "k"), "lawn");
    for id in 1..33 {
        client.ask(&format!("DEHYDRATOR.REM k {id}"));
    }
    assert_eq!(
        (encoding(&mut client, "k"), client.ask("DEHYDRATOR.LEN k")),
        ("lawn".into(), Value::Int(1))
    );
    // When empty it is deleted, and the next one is new.
    client.ask("DEHYDRATOR.REM k 0");
    push(&mut client, "k", 0..1, 1);
    assert_eq!(encoding(&mut client, "k"), "small");

    // A payload of 4,070, an id of 2 and a head of 13 are 4,085 bytes.
    push(&mut client, "b", 10..11, 4070);
    assert_eq!(encoding(&mut client, "b"), "small");
    push(&mut client, "b", 11..12, 1);
    assert_eq!(encoding(&mut client, "b"), "lawn");
    for (key, change) in [("u", "DEHYDRATOR.UPDATE u 1"), ("r", "DEHYDRATOR.PUSH r 500")] {
        push(&mut client, key, 1..3, 1);
        let mut large = cmd(change);
        large.arg(vec![b'y'; 5000]);
        if key == "r" {
            large.arg(1).arg("REPLACE");
        }
        large.exec(&mut client).expect("a reply");
        assert_eq!(encoding(&mut client, key), "lawn");
        let looked: String =
            cmd(&format!("DEHYDRATOR.LOOK {key} 1")).query(&mut client).expect("it");
        assert_eq!(looked, "y".repeat(5000));
        assert_eq!(client.ask(&format!("DEHYDRATOR.LOOK {key} 2")), text("x"));
    }
    // A refused push that would exceed the limit changes nothing.
    client.ask("CONFIG SET dehydrator.max-elements 1");
    push(&mut client, "m", 0..1, 1);
    client.refused("DEHYDRATOR.PUSH m 5000 element another");
    assert_eq!(encoding(&mut client, "m"), "small");
}

#[test]
fn settings_apply_to_the_next_push() {
    let (_server, mut client) = Server::with_client(&["small-max-elements", "2"]);
    push(&mut client, "k", 0..2, 1);
    assert_eq!(encoding(&mut client, "k"), "small");
    client.ask("CONFIG SET dehydrator.small-max-elements 0");
    assert_eq!(encoding(&mut client, "k"), "small");
    client.ask("DEHYDRATOR.PUSH k 1000 element 2");
    assert_eq!(encoding(&mut client, "k"), "lawn");
    push(&mut client, "none", 0..1, 1);
    assert_eq!(encoding(&mut client, "none"), "lawn");
    client.ask("CONFIG SET dehydrator.small-max-elements 512 dehydrator.small-max-bytes 65536");
    push(&mut client, "many", 0..512, 50);
    assert_eq!(encoding(&mut client, "many"), "small");
    client.ask("CONFIG SET dehydrator.small-max-bytes 0");
    push(&mut client, "bytes", 0..1, 1);
    assert_eq!(encoding(&mut client, "bytes"), "lawn");
    for (name, most) in [("elements", 512), ("bytes", 65_536)] {
        for bad in [-1, most + 1] {
            client.refused(&format!("CONFIG SET dehydrator.small-max-{name} {bad}"));
        }
    }
}

/// Returns the bytes that each of many keys adds to the server's memory, when the commands of `fill` have filled it.
fn bytes_a_key(client: &mut Connection, fill: impl Fn(&mut redis::Pipeline, u32)) -> u64 {
    const KEYS: u32 = 10_000;
    client.ask("FLUSHALL");
    // Some servers free in the background.
    until("all is freed", || {
        (client.info("memory", "lazyfree_pending_objects") == 0).then_some(())
    });
    let before = client.info("memory", "used_memory");
    for first in (0..KEYS).step_by(500) {
        let mut pipe = redis::pipe();
        (first..first + 500).for_each(|key| fill(&mut pipe, key));
        pipe.exec(client).expect("replies");
    }
    (client.info("memory", "used_memory") - before) / u64::from(KEYS)
}

#[test]
fn many_small_dehydrators_take_no_more_than_what_they_replace() {
    let (_server, mut client) = Server::with_client(&[]);
    for (elements, most) in [(1, 260), (4, 442), (32, 1800)] {
        let each = bytes_a_key(&mut client, |pipe, key| {
            for id in 0..elements {
                let id = format!("{id:016}");
                pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(60_000).arg(&[b'x'; 16]).arg(id);
            }
        });
        assert!(each <= most, "{each} bytes for {elements} elements, {most} at most");
    }
}

/// Returns digest, dump and due elements, in order.
fn content(client: &mut Connection, key: &str) -> [Value; 3] {
    let dump = client.ask(&format!("DUMP {key}"));
    [client.digest(key), dump, client.ask(&format!("DEHYDRATOR.XPOLL {key}"))]
}

#[test]
fn only_info_shows_the_form_and_a_copy_chooses_it_anew() {
    let (mut server, mut client) =
        Server::with_client(&["--appendonly", "yes", "--save", "3600 1"]);
    let fill = |client: &mut Connection| {
        // Ties across two TTLs, some due, some leased, one settled, one changed.
        for id in 0..20 {
            let (ttl, at) = (id % 2 * 1000, if id < 8 { 1000 } else { 9_000_000_000_000_u64 });
            client.ask(&format!("DEHYDRATOR.PUSH k {ttl} element-{id} {id} AT {at}"));
        }
        client.ask("DEHYDRATOR.EFFECT k L500@9000000000000@7 3 5");
        client.ask("DEHYDRATOR.EFFECT k L500@1000@8 3 9 9");
        client.ask("DEHYDRATOR.UPDATE k 10 an-element-that-is-longer");
        client.ask("DEHYDRATOR.TOUCH k 5 AT 1000 11");
        client.ask("DEHYDRATOR.XACK k 2");
        client.ask("DEHYDRATOR.PUSH k 1000 again 12 AT 9000000000000 REPLACE");
    };
    fill(&mut client);
    assert_eq!(encoding(&mut client, "k"), "small");
    let small = content(&mut client, "k");
    client.ask("COPY k copy");
    assert_eq!(encoding(&mut client, "copy"), "small");
    client.ask("CONFIG SET dehydrator.small-max-elements 0");
    client.ask("DEL k");
    fill(&mut client);
    assert_eq!(encoding(&mut client, "k"), "lawn");
    assert_eq!(content(&mut client, "k"), small);
    assert_eq!(content(&mut client, "copy"), small);

    client.ask("CONFIG SET dehydrator.small-max-elements 32");
    client.ask("DEBUG RELOAD");
    for key in ["k", "copy"] {
        assert_eq!(
            (encoding(&mut client, key), content(&mut client, key)),
            ("small".into(), small.clone())
        );
    }
    // From the append-only file.
    server.restart();
    let mut client = server.connect();
    for key in ["k", "copy"] {
        assert_eq!(
            (encoding(&mut client, key), content(&mut client, key)),
            ("small".into(), small.clone())
        );
    }
    let Value::BulkString(dump) = small[1].clone() else { panic!("a dump") };
    let restored = redis::cmd("RESTORE").arg("back").arg(0).arg(dump).exec(&mut client);
    restored.expect("our own words");
    assert_eq!(
        (encoding(&mut client, "back"), content(&mut client, "back")),
        ("small".into(), small)
    );
}

#[test]
fn a_scan_shows_permanent_elements_once_while_the_form_changes() {
    let (_server, mut client) = Server::with_client(&[]);
    let mut next = 1000;
    for stay in [5, 30, 31, 32, 33, 40, 100] {
        let key = format!("k{stay}");
        push(&mut client, &key, 0..stay, 1);
        let (mut cursor, mut shown, mut calls) = ("0".to_owned(), Vec::new(), 0);
        loop {
            let scan = cmd(&format!("DEHYDRATOR.SCAN {key} {cursor} COUNT 5"));
            let (at, ids): (String, Vec<u32>) = scan.query(&mut client).expect("a page");
            (cursor, calls) = (at, calls + 1);
            shown.extend(ids.into_iter().filter(|id| *id < stay));
            if cursor == "0" {
                break;
            }
            // Others come and go meanwhile.
            push(&mut client, &key, next..next + 20, 1);
            client.ask(&format!("DEHYDRATOR.REM {key} {next} {}", next + 1));
            next += 20;
        }
        let different: BTreeSet<_> = shown.iter().copied().collect();
        assert_eq!((shown.len(), different.len()), (stay as usize, stay as usize), "{key}");
        assert_eq!(calls == 1, stay <= 32, "{calls} calls for {stay}");
    }
    // A cursor of a dehydrator that was large, and of one that was replaced.
    push(&mut client, "k", 0..100, 1);
    let (cursor, _): (String, Vec<u32>) =
        cmd("DEHYDRATOR.SCAN k 0 COUNT 5").query(&mut client).expect("a page");
    assert_ne!(cursor, "0");
    client.ask("DEL k");
    push(&mut client, "k", 7..8, 1);
    let expected = Value::Array(vec![text("0"), texts(&["7"])]);
    assert_eq!(client.ask(&format!("DEHYDRATOR.SCAN k {cursor}")), expected);
}
