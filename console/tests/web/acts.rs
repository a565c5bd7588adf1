//! Changes, and the record of them.

use redis::{Connection, Value as Reply};
use serde_json::{Value, json};

use super::{Page, b64, bytes, change, named};
use harness::{Ask, Server, text, until};

fn fill(client: &mut Connection, key: &str, ttl: u64, ids: std::ops::Range<u32>) {
    for chunk in ids.collect::<Vec<_>>().chunks(1000) {
        let mut pipe = redis::pipe();
        for id in chunk {
            pipe.cmd("DEHYDRATOR.PUSH").arg(key).arg(ttl).arg("element").arg(id).ignore();
        }
        pipe.query::<()>(client).expect("pushed");
    }
}

fn pttl(client: &mut Connection, key: &str, id: &[u8]) -> i64 {
    redis::cmd("DEHYDRATOR.PTTL").arg(key).arg(id).query(client).expect("a number")
}

fn log(page: &Page, server: &Server) -> Vec<Value> {
    let answer =
        page.get(&format!("api/log?{}", named(server, "").split('&').next().expect("a node")));
    answer["rows"].as_array().expect("rows").clone()
}

#[test]
fn elements_are_run_postponed_cancelled_and_edited_by_their_exact_ids() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let id = b"<b>\x00\xff\r\n";
    let mut push = redis::cmd("DEHYDRATOR.PUSH");
    push.arg("jobs").arg(600_000).arg("old").arg(id).exec(&mut client).expect("pushed");
    client.ask("DEHYDRATOR.PUSH jobs 600000 other <b>");
    let page = Page::of(&[&server]);
    let on = json!({ "ids_b64": [b64(id), b64("none")] });
    let act = |action: &str, args: Value, on: &Value| {
        page.post("api/act", &change(&server, "jobs", action, args, on.clone()))
    };

    let done = act("postpone", json!({ "ms": 3_600_000 }), &on);
    assert_eq!((&done["done"], &done["missed"]), (&json!(1), &json!(1)), "{done}");
    assert!(pttl(&mut client, "jobs", id) > 3_000_000);
    act("postpone", json!({ "at": 4_102_444_800_000_u64 }), &on);
    assert!(pttl(&mut client, "jobs", id) > 3_600_000);
    act("run_now", Value::Null, &on);
    assert_eq!(pttl(&mut client, "jobs", id), 0);
    let element = b"<script>\x00\xfe";
    let one = json!({ "ids_b64": [b64(id)] });
    act("edit", json!({ "element_b64": b64(element) }), &one);
    let look: Vec<u8> =
        redis::cmd("DEHYDRATOR.LOOK").arg("jobs").arg(id).query(&mut client).expect("bytes");
    assert_eq!(look, element);
    let (status, _) = page.try_post(
        "api/act",
        &change(&server, "jobs", "edit", json!({ "element_b64": "" }), on.clone()),
    );
    assert_eq!(status, 400, "two elements cannot be edited at once");
    assert_eq!(
        act("edit", json!({ "element_b64": "" }), &json!({ "ids_b64": [b64("none")] }))["missed"],
        1
    );
    assert_eq!(act("cancel", Value::Null, &on)["done"], 1);
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs"), Reply::Int(1));
    assert_eq!(client.ask("DEHYDRATOR.LOOK jobs <b>"), text("other"));

    // Each is in the log, the latest first.
    let log = log(&page, &server);
    let actions: Vec<_> = log.iter().map(|row| row["action"].as_str().expect("text")).collect();
    assert_eq!(actions, ["cancel", "edit", "edit", "run_now", "postpone", "postpone"]);
    let last = &log[0];
    assert_eq!(
        (&last["who"], &last["user"], &last["count"]),
        (&json!("local"), &json!("default"), &json!(2))
    );
    assert_eq!(bytes(&last["queue"]["key_b64"]), b"jobs");
    assert!(!log[2].to_string().contains(&b64(element)), "no element in the log");
    // It names the ids, whatever bytes they are.
    let named = json!({ "ids": ["<b>\\x00\\xff\\r\\n", "none"], "number": 2 });
    assert_eq!(last["on"], named);
}

#[test]
fn the_log_and_the_jobs_name_what_was_acted_on() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, "jobs", 600_000, 0..150);
    let page = Page::of(&[&server]);
    let act = |action: &str, on: Value| {
        page.post("api/act", &change(&server, "jobs", action, Value::Null, on))
    };
    let ids = |ids: std::ops::Range<u32>| {
        let ids: Vec<_> = ids.map(|id| b64(id.to_string())).collect();
        json!({ "ids_b64": ids })
    };

    act("pause", Value::Null);
    act("cancel", ids(7..8));
    act("cancel", ids(20..40));
    let by_id = page.end_of(&act("cancel", json!({ "match": { "id": "14", "text": "ELEM" } })));
    let many = page.end_of(&act("cancel", ids(0..120)));
    let all = page.end_of(&act("give_back", json!({ "match": {} })));

    let first = |first: std::ops::Range<u32>, number: u32| {
        let ids: Vec<_> = first.map(|id| id.to_string()).collect();
        json!({ "ids": ids, "number": number })
    };
    let filter = json!({ "match": { "view": "next", "id": "14", "text": "ELEM" } });
    let held = json!({ "match": { "view": "held", "id": "", "text": "" } });
    assert_eq!((&by_id["on"], &many["on"], &all["on"]), (&filter, &first(0..10, 120), &held));
    // A job is recorded when it begins and when it ends.
    let expected = [
        &held,
        &held,
        &first(0..10, 120),
        &first(0..10, 120),
        &filter,
        &filter,
        &first(20..30, 20),
        &first(7..8, 1),
        &Value::Null,
    ];
    until("the ends are recorded", || {
        let on: Vec<_> = log(&page, &server).iter().map(|row| row["on"].clone()).collect();
        on.iter().eq(expected).then_some(())
    });
    // In words for those who read the stream without the page.
    let stream = format!("{:?}", client.ask("XRANGE dehydrator:log - +"));
    assert!(stream.contains("ELEM"), "{stream}");
}

#[test]
fn the_overview_knows_of_a_change_at_once() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, "jobs", 600_000, 0..300);
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 3 STREAM dead");
    client.ask("XADD dead * id 1000 element again deliveries 3");
    let page = Page::of(&[&server]);
    let shown = || {
        let overview = page.get("api/overview");
        let queue = &overview["queues"][0];
        let fields = &overview["nodes"][0]["fields"];
        (
            queue["length"].as_u64(),
            queue["dead"]["count"].as_u64(),
            queue["paused"].as_bool(),
            fields["elements"].as_f64(),
            fields["paused"].as_f64(),
        )
    };
    let before = (Some(300), Some(1), Some(false), Some(300.0), Some(0.0));
    until("the queue is found", || (shown() == before).then_some(()));
    let act = |action: &str, on: Value| {
        page.post("api/act", &change(&server, "jobs", action, Value::Null, on))
    };

    act("cancel", json!({ "ids_b64": [b64("7")] }));
    assert_eq!(shown(), (Some(299), Some(1), Some(false), Some(299.0), Some(0.0)));
    let dead = page.get(&format!("api/dead?{}", named(&server, "jobs")));
    act("revive", json!({ "entries": [dead["rows"][0]["entry"]] }));
    assert_eq!(shown(), (Some(300), Some(0), Some(false), Some(300.0), Some(0.0)));
    act("pause", Value::Null);
    assert_eq!(shown(), (Some(300), Some(0), Some(true), Some(300.0), Some(1.0)));
    page.end_of(&act("cancel", json!({ "match": { "id": "1" } })));
    let left = client.ask("DEHYDRATOR.LEN jobs");
    let Reply::Int(left) = left else { panic!("{left:?}") };
    assert!((1..299).contains(&left), "{left}");
    let left = left as u64;
    assert_eq!(shown(), (Some(left), Some(0), Some(true), Some(left as f64), Some(1.0)));
}

#[test]
fn a_held_element_is_left_to_its_worker() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH jobs 0 element id");
    client.ask("DEHYDRATOR.POLL jobs LEASE 600000 TOKEN worker");
    let page = Page::of(&[&server]);
    let on = json!({ "ids_b64": [b64("id")] });
    // As if it had been listed before the worker took it.
    for (action, args) in
        [("run_now", json!({})), ("postpone", json!({ "ms": 1 })), ("cancel", json!({}))]
    {
        for on in [&on, &json!({ "match": { "view": "next" } })] {
            let answer =
                page.post("api/act", &change(&server, "jobs", action, args.clone(), on.clone()));
            let outcome = if answer["job"].is_string() { page.end_of(&answer) } else { answer };
            assert_eq!(outcome["done"], 0, "{action}: {outcome}");
        }
    }
    let lease = pttl(&mut client, "jobs", b"id");
    assert!((500_000..=600_000).contains(&lease), "{lease}");
    let count = format!("{:?}", client.ask("DEHYDRATOR.SETTLE jobs worker id"));
    assert_eq!(count, "array([int(1)])", "the worker still settles it");

    // It is given back, which its worker's token survives not; and cancelled only if that is said.
    client.ask("DEHYDRATOR.PUSH jobs 0 element id");
    client.ask("DEHYDRATOR.POLL jobs LEASE 600000 TOKEN worker");
    let back = page.post("api/act", &change(&server, "jobs", "give_back", json!({}), on.clone()));
    assert_eq!((&back["done"], pttl(&mut client, "jobs", b"id")), (&json!(1), 0));
    assert_eq!(format!("{:?}", client.ask("DEHYDRATOR.SETTLE jobs worker id")), "array([int(0)])");
    let again = page.post("api/act", &change(&server, "jobs", "give_back", json!({}), on.clone()));
    assert_eq!((&again["done"], &again["missed"]), (&json!(0), &json!(1)));
    client.ask("DEHYDRATOR.POLL jobs LEASE 600000");
    let job = page.post(
        "api/act",
        &change(
            &server,
            "jobs",
            "give_back",
            json!({ "ms": 9000 }),
            json!({ "match": { "view": "held" } }),
        ),
    );
    assert_eq!(page.end_of(&job)["done"], 1);
    client.ask("DEHYDRATOR.TOUCH jobs 0 id");
    client.ask("DEHYDRATOR.POLL jobs LEASE 600000");
    page.post("api/act", &change(&server, "jobs", "cancel", json!({ "held": true }), on));
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs"), Reply::Int(0));
}

#[test]
fn settings_are_changed() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH jobs 600000 element id");
    let page = Page::of(&[&server]);
    let act = |action: &str, args: Value| {
        page.post("api/act", &change(&server, "jobs", action, args, Value::Null))
    };
    let shown = || page.get(&format!("api/queue?{}", named(&server, "jobs")))["queue"].clone();
    act("pause", json!({}));
    assert_eq!((&shown()["paused"], &shown()["paused_until"]), (&json!(true), &Value::Null));
    act("pause", json!({ "at": 4_102_444_800_000_u64 }));
    assert_eq!(shown()["paused_until"], 4_102_444_800_000_u64);
    act("resume", json!({}));
    assert_eq!(shown()["paused"], false);
    assert_eq!(act("resume", json!({}))["missed"], 1);
    act("limit", json!({ "length": 10, "held": 3, "rate": 5, "per": 1000, "remember": 60000 }));
    assert_eq!(
        shown()["limits"],
        json!({ "length": 10, "held": 3, "rate": 5, "per": 1000, "remember": 60000 })
    );
    act("limit", json!({ "rate": 0 }));
    assert_eq!((&shown()["limits"]["rate"], &shown()["limits"]["held"]), (&json!(0), &json!(3)));
    act("ondue", json!({ "words": ["HOLD", "DELIVERIES", "5", "STREAM", "dead letters"] }));
    assert_eq!(
        (&shown()["policy"], bytes(&shown()["dead"]["dest_b64"])),
        (&json!("HOLD DELIVERIES 5 STREAM \"dead letters\""), b"dead letters".to_vec())
    );
    let (status, answer) = page.try_post(
        "api/act",
        &change(&server, "jobs", "ondue", json!({ "words": ["NONSENSE"] }), Value::Null),
    );
    assert_eq!(status, 409, "{answer}");
    for (action, args, on) in [
        ("postpone", json!({}), json!({ "ids_b64": ["YQ"] })),
        ("run_now", json!({}), json!({})),
        ("run_now", json!({}), json!({ "ids_b64": [] })),
        ("run_now", json!({}), json!({ "entries": ["1-0"] })),
        ("limit", json!({}), Value::Null),
        ("limit", json!({ "length": -1 }), Value::Null),
        ("edit", json!({ "element_b64": "" }), json!({ "match": {} })),
    ] {
        let (status, answer) = page.try_post("api/act", &change(&server, "jobs", action, args, on));
        assert_eq!((status, &answer["code"]), (400, &json!("BAD")), "{action}: {answer}");
    }
    let (status, _) = page.try_post("api/act", &json!({ "queue": 1 }));
    assert_eq!(status, 422);
}

#[test]
fn schedules_run_now_pause_and_go() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.EVERY jobs 3600000 tick hourly GROUP anna DELIVERIES 3");
    let page = Page::of(&[&server]);
    let act = |action: &str, name: &str| {
        let args = json!({ "schedule_b64": b64(name) });
        page.try_post("api/act", &change(&server, "jobs", action, args, Value::Null))
    };
    let row = || {
        let rows = page.get(&format!("api/schedules?{}", named(&server, "jobs")));
        rows["rows"][0].clone()
    };
    let before = row();
    assert_eq!(act("run_schedule", "hourly").0, 200);
    assert_eq!(row(), before, "the next one stays");
    let polled = format!("{:?}", client.ask("DEHYDRATOR.POLL jobs WITHIDS"));
    assert!(polled.contains("hourly@17") && polled.contains("tick"), "{polled}");
    act("run_schedule", "hourly");
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs GROUP anna"), Reply::Int(1));
    assert_eq!((act("run_schedule", "none").0, act("pause", "none").0), (404, 409));
    assert_eq!(act("pause", "hourly").0, 200);
    assert_eq!(row()["paused"], true);
    assert_eq!(act("resume", "hourly").0, 200);
    assert_eq!((&row()["paused"], &row()["next"]), (&json!(false), &before["next"]));
    assert_eq!(act("unschedule", "hourly").1["done"], 1);
    assert_eq!(row(), Value::Null);
    let args = log(&page, &server)[0]["args"].clone();
    assert_eq!(args, r#"{"schedule":"hourly"}"#);
}

#[test]
fn groups_are_paused_limited_and_acted_on() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    for (id, group) in [(1, "anna"), (2, "anna"), (3, "bert")] {
        client.ask(&format!("DEHYDRATOR.PUSH mails 0 element {id} GROUP {group}"));
    }
    let page = Page::of(&[&server]);
    let act = |action: &str, args: Value, on: Value| {
        page.post("api/act", &change(&server, "mails", action, args, on))
    };
    let anna = json!({ "group_b64": b64("anna") });
    act("pause", anna.clone(), Value::Null);
    let told = |group: &str| {
        let query = format!("{}&group={}", named(&server, "mails"), b64(group));
        page.get(&format!("api/queue?{query}"))["group"].clone()
    };
    assert_eq!((&told("anna")["paused"], &told("bert")["paused"]), (&json!(true), &json!(false)));
    act("resume", anna, Value::Null);
    let limits = json!({ "group_b64": b64("anna"), "held": 1, "share": 4 });
    act("limit", limits, Value::Null);
    act("limit", json!({ "each": true, "length": 9 }), Value::Null);
    let anna = told("anna");
    assert_eq!((&anna["share"], &anna["limits"]["held"]), (&json!(4), &json!(1)));
    assert_eq!((&anna["paused"], &told("bert")["limits"]["length"]), (&json!(false), &json!(9)));
    // What matches is of the group alone.
    let on = json!({ "match": { "group_b64": b64("anna") } });
    let body = change(&server, "mails", "cancel", json!({}), on.clone());
    assert_eq!(page.post("api/act?count=1", &body)["would"], 2);
    assert_eq!(page.end_of(&act("cancel", json!({}), on))["done"], 2);
    assert_eq!(client.ask("DEHYDRATOR.LOOK mails 3"), text("element"));
    until("the end is recorded", || {
        let group = &log(&page, &server)[0]["on"]["match"]["group"];
        (group == "anna").then_some(())
    });
}

#[test]
fn an_element_is_put_and_a_dead_letter_comes_back_with_another() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    let page = Page::of(&[&server]);
    let try_act = |action: &str, args: Value, on: Value| {
        page.try_post("api/act", &change(&server, "jobs", action, args, on))
    };
    let put = json!({ "element_b64": b64("work"), "id_b64": b64("1"), "ms": 60_000 });
    assert_eq!(try_act("push", put.clone(), Value::Null).0, 200);
    assert!(pttl(&mut client, "jobs", b"1") > 50_000);
    let (status, answer) = try_act("push", put, Value::Null);
    assert!(status == 409 && answer["error"].to_string().contains("EXISTS"), "{answer}");
    let put =
        json!({ "element_b64": b64("x"), "at": 4_102_444_800_000_u64, "group_b64": b64("g") });
    assert_eq!(try_act("push", put, Value::Null).0, 200);
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs GROUP g"), Reply::Int(1));

    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 5 STREAM jobs:dead");
    for id in ["2", "3"] {
        client.ask(&format!("XADD jobs:dead {id}-1 id {id} element wrong group g"));
    }
    let mended = json!({ "element_b64": b64("right") });
    let on = |entries: &[&str]| json!({ "entries": entries });
    assert_eq!(try_act("revive", mended.clone(), on(&["2-1", "3-1"])).0, 400);
    assert_eq!(try_act("revive", mended.clone(), json!({ "match": {} })).0, 400);
    assert_eq!(try_act("revive", mended, on(&["2-1"])).1["done"], 1);
    assert_eq!(client.ask("DEHYDRATOR.LOOK jobs 2"), text("right"));
    assert_eq!(
        (client.ask("DEHYDRATOR.LEN jobs GROUP g"), client.ask("XLEN jobs:dead")),
        (Reply::Int(2), Reply::Int(1))
    );
}

#[test]
fn all_that_match_are_counted_first_and_then_changed() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, "jobs", 600_000, 0..2000);
    client.ask("DEHYDRATOR.PUSH jobs 0 element due:1");
    let page = Page::of(&[&server]);
    let body =
        |action: &str, on: Value| change(&server, "jobs", action, json!({ "ms": 7_200_000 }), on);
    // Ids with a 7 among 0 to 1999: 2 * 271.
    let on = json!({ "match": { "view": "next", "id": "7" } });
    assert_eq!(
        page.post("api/act?count=1", &body("postpone", on.clone())),
        json!({ "would": 542, "complete": true })
    );
    let job = page.end_of(&page.post("api/act", &body("postpone", on.clone())));
    assert_eq!(
        (&job["done"], &job["missed"], &job["state"]),
        (&json!(542), &json!(0), &json!("done")),
        "{job}"
    );
    assert!(pttl(&mut client, "jobs", b"1777") > 7_000_000);
    assert!(pttl(&mut client, "jobs", b"1666") <= 600_000);

    let on = json!({ "match": { "view": "next" } });
    assert_eq!(page.post("api/act?count=1", &body("run_now", on.clone()))["would"], 2000);
    let job = page.end_of(&page.post("api/act", &body("run_now", on.clone())));
    assert_eq!((&job["done"], &job["of"]), (&json!(2000), &json!(2000)), "{job}");
    let on = json!({ "match": { "view": "due", "text": "ELEM" } });
    let job = page.end_of(&page.post("api/act", &body("cancel", on)));
    assert_eq!(
        (&job["done"], client.ask("DEHYDRATOR.LEN jobs")),
        (&json!(2001), Reply::Int(0)),
        "{job}"
    );
    let ended: Vec<_> = log(&page, &server)
        .iter()
        .map(|row| row["args"].as_str().expect("text").to_owned())
        .collect();
    assert!(ended[0].contains("done, missed 0"), "{ended:?}");
    assert!(page.get("api/jobs").as_array().expect("jobs").len() == 3);
    assert_eq!(page.try_get("api/jobs/77").0, 404);
}

#[test]
fn a_job_over_100_000_elements_is_stopped_midway() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    fill(&mut client, "jobs", 600_000, 0..100_000);
    let page = Page::of(&[&server]);
    let begun = page.post(
        "api/act",
        &change(&server, "jobs", "cancel", Value::Null, json!({ "match": { "view": "next" } })),
    );
    let job = begun["job"].as_str().expect("a job").to_owned();
    until("it has begun", || {
        (page.get(&format!("api/jobs/{job}"))["done"].as_u64()? > 500).then_some(())
    });
    page.post(&format!("api/jobs/{job}/stop"), &json!({}));
    let stopped = page.end_of(&begun);
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let done = stopped["done"].as_u64().expect("a number");
    assert!((500..100_000).contains(&done), "{stopped}");
    // What it tells is what was done, and nothing more happens.
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs"), Reply::Int(100_000 - done as i64));
    assert_eq!(log(&page, &server)[0]["count"], done);
}

#[test]
fn dead_letters_are_revived_or_dropped() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.ONDUE jobs HOLD DELIVERIES 5 STREAM jobs:dead");
    client.ask("DEHYDRATOR.ONDUE mails HOLD DELIVERIES 5 LIST mails:dead");
    for id in 0..10 {
        for key in ["jobs", "mails"] {
            client.ask(&format!("DEHYDRATOR.PUSH {key} 0 element:{id} id:{id} GROUP anna"));
            client.ask(&format!("DEHYDRATOR.POLL {key} LEASE 60000 TOKEN t"));
            client.ask(&format!("DEHYDRATOR.REJECT {key} t id:{id}"));
        }
    }
    client.ask("DEHYDRATOR.PUSH jobs 600000 newer id:3");
    let page = Page::of(&[&server]);
    let entries = |key: &str| -> Vec<String> {
        let dead = page.get(&format!("api/dead?{}", named(&server, key)));
        let rows = dead["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["entry"].as_str().expect("text").to_owned()).collect()
    };
    let act = |key: &str, action: &str, on: Value| {
        page.post("api/act", &change(&server, key, action, json!({}), on))
    };
    let revived = act("jobs", "revive", json!({ "entries": entries("jobs")[..2] }));
    assert_eq!((&revived["done"], client.ask("XLEN jobs:dead")), (&json!(2), Reply::Int(8)));
    assert_eq!(client.ask("DEHYDRATOR.LOOK jobs id:9"), text("element:9"));
    assert_eq!(client.ask("DEHYDRATOR.LEN jobs GROUP anna"), Reply::Int(2));
    // Where an element has the id, the dead letter stays.
    let job = page.end_of(&act("jobs", "revive", json!({ "match": { "id": "id:" } })));
    assert_eq!((&job["done"], &job["missed"]), (&json!(7), &json!(1)), "{job}");
    assert_eq!(
        (client.ask("DEHYDRATOR.LOOK jobs id:3"), client.ask("XLEN jobs:dead")),
        (text("newer"), Reply::Int(1))
    );
    // A queue that is full takes none, and nothing is lost.
    client.ask("DEHYDRATOR.REM jobs id:3");
    client.ask("DEHYDRATOR.LIMIT jobs LENGTH 1");
    let (status, answer) = page.try_post(
        "api/act",
        &change(&server, "jobs", "revive", json!({}), json!({ "entries": entries("jobs") })),
    );
    assert_eq!(status, 409, "{answer}");
    assert!(answer["error"].as_str().expect("text").contains("FULL"), "{answer}");
    assert_eq!(act("jobs", "drop_dead", json!({ "entries": entries("jobs") }))["done"], 1);
    assert_eq!(client.ask("XLEN jobs:dead"), Reply::Int(0));

    // From a list, where they have lost their ids.
    let stale = entries("mails");
    client.ask("LPOP mails:dead");
    assert_eq!(
        act("mails", "revive", json!({ "entries": [stale[5]] }))["missed"],
        1,
        "it is elsewhere by now"
    );
    let known = entries("mails");
    assert_eq!(act("mails", "revive", json!({ "entries": known[..2] }))["done"], 2);
    assert_eq!(client.ask("DEHYDRATOR.LEN mails"), Reply::Int(2));
    let job = page.end_of(&act("mails", "drop_dead", json!({ "match": { "text": "element:7" } })));
    assert_eq!((&job["done"], client.ask("LLEN mails:dead")), (&json!(1), Reply::Int(6)), "{job}");
    let job = page.end_of(&act("mails", "revive", json!({ "match": {} })));
    assert_eq!((&job["done"], client.ask("LLEN mails:dead")), (&json!(6), Reply::Int(0)), "{job}");
}

#[test]
fn the_log_is_one_for_all_databases() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("SELECT 3");
    client.ask("DEHYDRATOR.PUSH jobs 600000 element id");
    let page = Page::of(&[&server]);
    let mut body = change(&server, "jobs", "pause", json!({}), Value::Null);
    body["queue"]["db"] = json!(3);
    page.post("api/act", &body);
    assert!(!client.exists("dehydrator:log"));
    let log = log(&page, &server);
    assert_eq!((&log[0]["action"], &log[0]["queue"]["db"]), (&json!("pause"), &json!(3)));
}

#[test]
fn without_a_log_changes_are_not_recorded() {
    let server = Server::start_with_port(&[]);
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH jobs 600000 element id");
    let url = format!("redis://127.0.0.1:{}", server.port());
    let page = Page::start(&["--log", "", &url]);
    page.post("api/act", &change(&server, "jobs", "pause", json!({}), Value::Null));
    assert!(!client.exists("dehydrator:log"));
    assert_eq!(page.get(&format!("api/log?{}", named(&server, "jobs")))["rows"], json!([]));
}
