//! The server decides what a user may do.

use redis::Value as Reply;
use serde_json::{Value, json};

use super::{Page, b64, change, named, node};
use harness::{Ask, Server, until};

const ACTIONS: [&str; 14] = [
    "run_now",
    "postpone",
    "cancel",
    "edit",
    "give_back",
    "revive",
    "drop_dead",
    "pause",
    "resume",
    "limit",
    "ondue",
    "push",
    "run_schedule",
    "unschedule",
];

/// Returns a body for each action, which a user with all rights could send.
fn bodies(server: &Server) -> Vec<Value> {
    let ids = json!({ "ids_b64": [b64("waiting"), b64("held")] });
    let matching = json!({ "match": { "view": "next" } });
    let entries = json!({ "entries": ["1-1"] });
    let element = json!({ "element_b64": b64("changed") });
    let all = [
        ("run_now", json!({}), ids.clone()),
        ("run_now", json!({}), matching.clone()),
        ("postpone", json!({ "ms": 1 }), ids.clone()),
        ("postpone", json!({ "at": 1 }), matching.clone()),
        ("cancel", json!({}), ids.clone()),
        ("cancel", json!({ "held": true }), ids.clone()),
        ("cancel", json!({}), matching),
        ("edit", element, json!({ "ids_b64": [b64("waiting")] })),
        ("give_back", json!({}), ids),
        ("give_back", json!({}), json!({ "match": { "view": "held" } })),
        ("revive", json!({}), entries.clone()),
        ("revive", json!({}), json!({ "match": {} })),
        ("drop_dead", json!({}), entries),
        ("drop_dead", json!({}), json!({ "match": {} })),
        ("pause", json!({}), Value::Null),
        ("resume", json!({}), Value::Null),
        ("limit", json!({ "length": 1 }), Value::Null),
        ("ondue", json!({ "words": ["DROP"] }), Value::Null),
        ("push", json!({ "element_b64": b64("new") }), Value::Null),
        ("pause", json!({ "group_b64": b64("anna") }), Value::Null),
        ("run_schedule", json!({ "schedule_b64": b64("hourly") }), Value::Null),
        ("unschedule", json!({ "schedule_b64": b64("hourly") }), Value::Null),
    ];
    all.into_iter().map(|(action, args, on)| change(server, "jobs", action, args, on)).collect()
}

fn fill(server: &Server) {
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 5 STREAM jobs:dead");
    client.ask("DEHYDRATOR.PUSH jobs 0 element held");
    client.ask("DEHYDRATOR.POLL jobs LEASE 600000 TOKEN t");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element waiting");
    client.ask("DEHYDRATOR.EVERY jobs 3600000 element hourly");
    client.ask("XADD jobs:dead 1-1 id dead element element");
}

/// Returns the digests of everything, and the number of keys.
fn everything(server: &Server) -> Vec<Reply> {
    let mut client = server.connect();
    let lines =
        ["DEBUG DIGEST", "DEBUG DIGEST-VALUE jobs", "DUMP jobs", "DUMP jobs:dead", "DBSIZE"];
    lines.map(|line| client.ask(line)).to_vec()
}

/// Sends every change as a user who may do none. Nothing may change, and each refusal says why.
fn nothing_changes(server: &Server, page: &Page, code: &str) {
    let before = everything(server);
    let shown = page.get(&format!("api/queue?{}", named(server, "jobs")));
    for action in ACTIONS {
        assert!(shown["rights"][action].is_string(), "{action}: {}", shown["rights"]);
    }
    for body in bodies(server) {
        for path in ["api/act", "api/act?count=1"] {
            let (status, answer) = page.try_post(path, &body);
            assert_eq!((status, &answer["code"]), (403, &json!(code)), "{body}: {answer}");
            assert!(answer["error"].as_str().is_some_and(|error| error.len() > 20), "{answer}");
        }
    }
    assert_eq!(page.get("api/jobs"), json!([]));
    // All other questions change nothing either.
    for path in ["elements", "dead", "timeline", "history", "log", "queue"] {
        page.try_get(&format!("api/{path}?{}", named(server, "jobs")));
    }
    page.get("api/overview");
    assert_eq!(everything(server), before);
}

#[test]
fn a_viewer_sees_all_and_changes_nothing() {
    let server = Server::start_with_port(&[]);
    fill(&server);
    let mut client = server.connect();
    // Redis 7.0 puts the commands of modules in no category.
    let read = "+@read +dehydrator.info +dehydrator.late +dehydrator.look +dehydrator.range +dehydrator.scan +info +time +select";
    for (user, more) in [
        // It can ask by ACL DRYRUN; by MULTI; by neither.
        ("viewer", "+acl|dryrun"),
        ("careful", "+multi +exec +discard"),
        ("plain", "+ping"),
    ] {
        client.ask(&format!("ACL SETUSER {user} on >secret ~* &* {read} {more}"));
        let page = Page::start(&[&format!("redis://{user}:secret@{}", node(&server))]);
        until("it sees the queue", || (page.get("api/overview")["total"] == 1).then_some(()));
        let elements = page.get(&format!("api/elements?{}", named(&server, "jobs")));
        assert_eq!(elements["rows"].as_array().map(Vec::len), Some(2));
        let dead = page.get(&format!("api/dead?{}", named(&server, "jobs")));
        assert_eq!(dead["rows"].as_array().map(Vec::len), Some(1), "{dead}");
        assert_eq!(page.get("api/session")["user"], user);
        nothing_changes(&server, &page, "NOPERM");
    }
}

#[test]
fn rights_are_those_of_the_key_and_of_the_log() {
    let server = Server::start_with_port(&[]);
    fill(&server);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH other 600000 element id");
    client.ask("ACL SETUSER half on >secret ~jobs* %R~other ~dehydrator:log +@all");
    client.ask("ACL SETUSER unlogged on >secret ~jobs* +@all");
    let page = Page::start(&[&format!("redis://half:secret@{}", node(&server))]);
    let rights = |page: &Page, key: &str| {
        page.get(&format!("api/queue?{}", named(&server, key)))["rights"].clone()
    };
    let jobs = rights(&page, "jobs");
    assert!(jobs.as_object().expect("rights").values().all(Value::is_null), "{jobs}");
    let other = rights(&page, "other");
    assert!(other["cancel"].as_str().expect("a reason").contains("key"), "{other}");
    // A queue that the user may not read is not listed.
    client.ask("DEHYDRATOR.PUSH secret 600000 element id");
    until("the others are listed", || (page.get("api/overview")["total"] == 2).then_some(()));
    assert_eq!(page.try_get(&format!("api/elements?{}", named(&server, "secret"))).0, 403);
    page.post("api/act", &change(&server, "jobs", "pause", json!({}), Value::Null));

    let page = Page::start(&[&format!("redis://unlogged:secret@{}", node(&server))]);
    let before = everything(&server);
    let reason = rights(&page, "jobs")["pause"].as_str().expect("a reason").to_owned();
    assert!(reason.contains("dehydrator:log"), "{reason}");
    let (status, _) =
        page.try_post("api/act", &change(&server, "jobs", "resume", json!({}), Value::Null));
    assert_eq!((status, everything(&server)), (403, before));
}

#[test]
fn a_replica_is_shown_but_not_changed() {
    let server = Server::start_with_port(&[]);
    fill(&server);
    let replica = Server::start_with_port(&[]);
    replica.follow(&server);
    let page = Page::of(&[&replica]);
    until("it sees the queue", || (page.get("api/overview")["total"] == 1).then_some(()));
    let shown = page.get(&format!("api/queue?{}", named(&replica, "jobs")));
    assert_eq!(shown["read_only"], true);
    assert!(shown["reason"].as_str().expect("a reason").contains("replica"), "{shown}");
    nothing_changes(&replica, &page, "READONLY");

    // With both, the queue is listed once, from the primary.
    let page = Page::of(&[&replica, &server]);
    until("both are known", || {
        let overview = page.get("api/overview");
        let roles: Vec<_> =
            overview["nodes"].as_array()?.iter().map(|node| node["role"].clone()).collect();
        let queues = overview["queues"].as_array()?;
        (roles == ["replica", "master"] && queues.len() == 1 && queues[0]["node"] == node(&server))
            .then_some(())
    });
}
