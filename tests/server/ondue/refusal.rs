//! Elements that may not, or cannot, be delivered now: they stay, and are retried.

use redis::Value;

use super::{arrived, field};
use harness::{Ask, Server, cmd, field_of, text, texts, until};

#[test]
fn an_undeliverable_element_stays_and_is_retried() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("SET s text");
    for id in 0..10 {
        client.ask(&format!("DEHYDRATOR.PUSH k {} element {id}", id % 3));
    }
    until("it is tried again", || (field(&server, "retries") >= 3).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(10));
    let due: Vec<String> = cmd("DEHYDRATOR.XPOLL k").query(&mut client).expect("ids");
    client.ask("DEL s");
    assert_eq!(arrived(&mut client, "s", 10), due);
    let log = server.log();
    assert_eq!(log.matches("could not be delivered").count(), 1, "{log}");
    assert!(log.contains("WRONGTYPE"), "{log}");
    assert_eq!(field(&server, "deliveries"), 10);

    // Without memory too. Removing is allowed.
    client.ask("CONFIG SET maxmemory 1");
    let refused = client.refused("DEHYDRATOR.PUSH k 0 element id");
    assert!(refused.starts_with("OOM"), "{refused}");
    client.ask("CONFIG SET maxmemory 0");
    client.ask("DEHYDRATOR.PUSH k 1000 element last");
    client.ask("CONFIG SET maxmemory 1");
    let before = field(&server, "retries");
    until("it is tried", || (field(&server, "retries") > before).then_some(()));
    client.ask("CONFIG SET maxmemory 0");
    assert_eq!(arrived(&mut client, "s", 11)[10], "last");
    assert_eq!(server.log().matches("could not be delivered").count(), 2);

    // A POLL gets due elements all the same.
    client.ask("DEL s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    assert_eq!(client.ask("DEHYDRATOR.PULL k id"), text("element"));
}

#[test]
fn nothing_is_delivered_while_clients_are_paused() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    client.ask("CLIENT PAUSE 100000 WRITE");
    until("it is due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    let ticks = field(&server, "ticks");
    until("a tick went by", || (field(&server, "ticks") > ticks + 1).then_some(()));
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(1));
    client.ask("CLIENT UNPAUSE");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_policy_needs_permission_for_its_destination() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("ACL SETUSER eve on nopass +@all ~k ~mine resetchannels &mine");
    let mut eve = server.connect();
    eve.ask("AUTH eve any");
    for line in [
        "STREAM s",
        "LIST s",
        "list s LEFT",
        "HOLD DELIVERIES 5 LIST s",
        "stream s MAXLEN 5",
        "PUBLISH news",
        "publish STREAM",
        "HOLD DELIVERIES 5 STREAM s",
        "hold deliveries 5 stream s maxlen 5",
        "HOLD DELIVERIES 5 PUBLISH news",
    ] {
        let refused = eve.refused(&format!("DEHYDRATOR.ONDUE k {line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    // Nor the policy of another key.
    for line in [
        "DROP",
        "HOLD",
        "PUBLISH mine",
        "STREAM k",
        "LIST mine",
        "STREAM mine",
        "HOLD DELIVERIES 5 STREAM mine",
    ] {
        let refused = eve.refused(&format!("DEHYDRATOR.ONDUE other {line}"));
        assert!(refused.starts_with("NOPERM"), "{line}: {refused}");
    }
    // Neither in a transaction nor in a script.
    for line in ["k STREAM s", "k LIST s", "k HOLD DELIVERIES 5 STREAM s", "other DROP"] {
        eve.ask("MULTI");
        let refused = eve.refused(&format!("DEHYDRATOR.ONDUE {line}"));
        assert!(refused.starts_with("NOPERM"), "{refused}");
        let _ = cmd("DISCARD").query::<Value>(&mut eve);
    }
    // The server does not check channels, so the command is refused when the transaction runs.
    eve.ask("MULTI");
    eve.ask("DEHYDRATOR.ONDUE k PUBLISH news");
    eve.ask("DEHYDRATOR.LEN k");
    let replies = format!("{:?}", cmd("EXEC").query::<Value>(&mut eve));
    assert!(replies.contains("NOPERM") || replies.contains("NoPerm"), "{replies}");
    for (policy, target) in [("STREAM", "s"), ("LIST", "s"), ("PUBLISH", "news")] {
        let call =
            format!("return redis.call('DEHYDRATOR.ONDUE', KEYS[1], '{policy}', '{target}')");
        let mut script = redis::cmd("EVAL");
        script.arg(call).arg(1).arg("k").query::<Value>(&mut eve).expect_err("no right");
    }
    assert!(!client.exists("k") && !client.exists("other"));
    let log = format!("{:?}", client.ask("ACL LOG"));
    assert!(log.contains("channel") && log.contains("news") && log.contains("eve"), "{log}");
    for line in [
        "STREAM mine",
        "LIST mine LEFT",
        "HOLD DELIVERIES 5 STREAM mine",
        "PUBLISH mine",
        "DROP",
        "HOLD",
    ] {
        eve.ask(&format!("DEHYDRATOR.ONDUE k {line}"));
        let mut script = redis::cmd("EVAL");
        let words = line.replace(' ', "', '");
        script.arg(format!("return redis.call('DEHYDRATOR.ONDUE', KEYS[1], '{words}')"));
        script.arg(1).arg("k").exec(&mut eve).expect("a right");
    }
}

#[test]
fn a_policy_that_was_allowed_once_needs_no_permission_again() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut primary = Server::start_with_port(&options);
    let replica = Server::start_with_port(&[]);
    replica.follow(&primary);
    let mut client = primary.connect();
    let mut there = replica.connect();
    // By the time it is replayed, nobody may publish.
    for node in [&mut client, &mut there] {
        node.ask("ACL SETUSER default resetchannels");
    }
    client.ask("ACL SETUSER default allchannels");
    client.ask("DEHYDRATOR.ONDUE k PUBLISH news");
    let policy = |client: &mut _| format!("{:?}", Ask::ask(client, "DEHYDRATOR.INFO k"));
    until("the replica knows it", || policy(&mut there).contains("news").then_some(()));
    primary.kill();
    primary.relaunch();
    assert!(policy(&mut primary.connect()).contains("news"));
}

#[test]
fn another_module_needs_no_permission_for_a_channel() {
    let server = Server::start_with_listener(&[]);
    let mut client = server.connect();
    client.ask("LISTENER.ON 1 set DEHYDRATOR.ONDUE k PUBLISH news");
    client.ask("SET any thing");
    let mut rule = cmd("LISTENER.ON 1 incrby EVAL");
    rule.arg("return redis.call('DEHYDRATOR.ONDUE', 'l', 'PUBLISH', 'news')").arg("0");
    rule.exec(&mut client).expect("OK");
    client.ask("INCR other");
    assert_eq!(client.ask("LISTENER.RAN"), texts(&["ok", "ok"]));
    for key in ["k", "l"] {
        let policy = format!("{:?}", client.ask(&format!("DEHYDRATOR.INFO {key}")));
        assert!(policy.contains("news"), "{key}: {policy}");
    }
}

#[test]
fn free_memory_is_noticed_without_a_command() {
    let (server, mut client) = Server::with_client(&[]);
    let mut set = redis::cmd("SET");
    set.arg("big").arg(vec![b'x'; 50 << 20]).exec(&mut client).expect("OK");
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("DEHYDRATOR.PUSH k 400 element id");
    client.ask("XGROUP CREATE s workers $ MKSTREAM");
    client.ask("CONFIG SET maxmemory 30mb");
    // The last command began without free memory, and ended with it.
    let mut consumer = server.connect();
    let line = "XREADGROUP GROUP workers one BLOCK 0 STREAMS s >";
    let thread = std::thread::spawn(move || consumer.ask(line));
    client.ask("DEL big");
    assert!(format!("{:?}", thread.join().expect("no panic")).contains("element"));
}

#[test]
fn a_clock_that_steps_back_does_not_delay_a_retry() {
    let server = Server::start_debug(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("SET s text");
    client.ask("DEHYDRATOR.PUSH k 0 element id");
    client.ask("DEHYDRATOR.DEBUG k CLOCK 3600000");
    let retries = field(&server, "retries");
    until("it is tried", || (field(&server, "retries") > retries).then_some(()));
    client.ask("DEHYDRATOR.DEBUG k CLOCK 0");
    client.ask("DEL s");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}

#[test]
fn a_policy_that_is_set_again_is_retried_at_once() {
    let (server, mut client) = Server::with_client(&[]);
    for (again, stream) in
        [("DEHYDRATOR.ONDUE k STREAM s", "s"), ("DEHYDRATOR.ONDUE k STREAM t", "t")]
    {
        client.ask("FLUSHALL");
        client.ask("DEHYDRATOR.ONDUE k STREAM s");
        client.ask("SET s text");
        client.ask("DEHYDRATOR.PUSH k 0 element id");
        let before = field(&server, "retries");
        until("it has failed often", || (field(&server, "retries") >= before + 5).then_some(()));
        // By now it has waited for more than three seconds, which are thirty ticks.
        client.ask("RENAME s other");
        let info = || cmd("INFO dehydrator");
        let mut pipe = redis::pipe();
        let read = format!("XREAD BLOCK 0 STREAMS {stream} 0");
        pipe.add_command(info())
            .add_command(cmd(again))
            .add_command(cmd(&read))
            .add_command(info());
        let (before, _, _, after): (String, Value, Value, String) =
            pipe.query(&mut client).expect("replies");
        let ticks = [before, after].map(|info| field_of(&info, "dehydrator_ticks"));
        assert!(ticks[1] - ticks[0] < 20, "{ticks:?} after {again}");
        assert_eq!(arrived(&mut client, stream, 1), ["id"]);
    }
}

#[test]
fn nothing_is_delivered_that_clients_may_not_write() {
    let (server, mut client) = Server::with_client(&[]);
    client.ask("DEHYDRATOR.ONDUE k STREAM s");
    client.ask("CONFIG SET min-replicas-to-write 1");
    let refused = client.refused("XADD s * a b");
    assert!(refused.starts_with("NOREPLICAS"), "{refused}");
    client.ask("CONFIG SET min-replicas-to-write 0");
    client.ask("DEHYDRATOR.PUSH k 1000 element id");
    client.ask("CONFIG SET min-replicas-to-write 1");
    until("it is tried", || (field(&server, "retries") > 0).then_some(()));
    client.ask("CONFIG SET min-replicas-to-write 0");
    assert_eq!(arrived(&mut client, "s", 1), ["id"]);
}
